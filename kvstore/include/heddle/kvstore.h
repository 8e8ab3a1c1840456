// A key-value store of weights: push gradients, pull weights. Every call pushes engine ops and returns at once.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <heddle/key.h>
#include <heddle/kvstore_options.h>
#include <heddle/ndarray.h>
#include <heddle/optimizer.h>
#include <heddle/row_sparse.h>

namespace heddle {

class Communicator;

// Not thread-safe. All arrays of a key have the shape and dtype it was initialised with; a key that is unknown or
// initialised twice, a wrong shape and a wrong dtype throw InvalidArgument at the call, which has done nothing then.
class KVStore {
 public:
  using Key = heddle::Key;
  using ReadResiduals = std::function<std::map<std::string, NDArray>()>;
  // "local": in this process, for any number of cpu(i) devices. "allreduce": what is stored is on every rank of the job
  // that this process was launched in, and pushes are summed over all of them. All ranks make the same calls in the same
  // order, but for optimizer_state and gradient_memory: where kind, key, shape, learning rate or scale differ, the arrays
  // of all ranks fail with CommMismatch, which names both. "dist_sync", "dist_async", "dist_ssp:S": on server processes, which
  // HEDDLE_STORE_SCHEDULER, HEDDLE_STORE_ETCD or HEDDLE_SERVERS names (docs/kvstore.md). Throws InvalidArgument saying what exists.
  static std::unique_ptr<KVStore> create(const std::string& type = "local", Where where = Where::current());
  static std::unique_ptr<KVStore> create(const std::string& type, const KVStoreOptions& options,
                                         Where where = Where::current());
  // The same over these ranks. Each of them calls it, and waits for the others: if their options differ all throw
  // InvalidArgument naming what they have.
  static std::unique_ptr<KVStore> create(const std::string& type, std::shared_ptr<Communicator> ranks,
                                         const KVStoreOptions& options = {}, Where where = Where::current());
  // Completes what was pushed and pulled; of the dist_ types, after an error, pushes alone, and pulls fail with StoreError.
  virtual ~KVStore() = default;
  virtual std::string type() const = 0;
  // This process's number among those that push, and how many there are.
  virtual int rank() const { return 0; }
  virtual int workers() const { return 1; }

  // Stores a copy of value, on value's device; of several workers' values that of rank 0.
  void init(Key key, const NDArray& value, Where where = Where::current());

  // Sums the values, one a device, in the order given. With an optimizer the sum is a gradient that updates what
  // is stored; without one the sum replaces it.
  void push(Key key, std::span<const NDArray> values, const UpdateOptions& options = {},
            Where where = Where::current());

  // Copies what is stored into each of `out`, on their own devices.
  void pull(Key key, std::span<const NDArray> out, Where where = Where::current());

  // The same for some rows of a key of a floating dtype: they are summed, and no other row changes. An optimizer updates each
  // as a weight of its own (see Optimizer::update), without one they are replaced. Between processes only these rows
  // travel. In a round of "dist_sync" in which another worker pushes a whole value, the sum is a whole value, too. An
  // "allreduce" store waits until all ranks have come here.
  void push(Key key, std::span<const RowSparse> values, const UpdateOptions& options = {},
            Where where = Where::current());
  void push(Key key, const RowSparse& value, const UpdateOptions& options = {},
            Where where = Where::current());

  // What these rows have: out[i], of (rows, d...), becomes row rows[i] of what is stored, which has a floating dtype. Between
  // processes only these travel, each once. rows: one axis, i32 or i64, any order, also repeated; an unknown one is an op error.
  void pull_rows(Key key, const NDArray& rows, const NDArray& out, Where where = Where::current());
  RowSparse pull_rows(Key key, const NDArray& rows, Where where = Where::current());

  // Overwrites what is stored, whatever the optimizer; of several workers' values with that of rank 0.
  void assign(Key key, const NDArray& value, Where where = Where::current());
  // All pushes from now on go through it: see create_optimizer, its state starts afresh; or "add": value += grad_scale * sum,
  // with 1 for integers. Several workers wait for each other; all throw if it or `weights`, "w f32 (3,), b f32 ()", differ.
  void set_optimizer(const std::string& name, const OptimizerParams& params = {},
                     Where where = Where::current());
  void set_optimizer(const std::string& name, const OptimizerParams& params, const std::string& weights,
                     Where where = Where::current());

  // Of the optimizer, for a checkpoint; empty without one. What an "allreduce" store has not sent yet, since nothing was
  // pulled after the push, is not in it. Setting it throws InvalidArgument, before anything is
  // changed, for what does not fit the optimizer and what is stored. Several workers wait for each other, all throw if one
  // refuses or the counts of updates differ, and of their states rank 0's is taken.
  virtual std::map<std::string, NDArray> optimizer_state() const = 0;
  void set_optimizer_state(const std::map<std::string, NDArray>& state, Where where = Where::current());

  // What compression has left out of this worker's pushes, which later pushes will make up for: its own part of a checkpoint,
  // f32 arrays; empty without compression. For stores of as many workers, with the same keys. Blocks, and rethrows errors.
  std::map<std::string, NDArray> residuals(Where where = Where::current()) const;
  // Without any, they are 0. Throws InvalidArgument, before anything is changed, naming what does not fit. Several workers
  // wait for each other, and all throw if one refuses; of an "allreduce" store all of them have residuals, or none.
  void set_residuals(const std::map<std::string, NDArray>& residuals, Where where = Where::current());
  // What `read` returns, if set_residuals would take it. Throws what that would throw, or `read`, on all; changes nothing.
  std::map<std::string, NDArray> check_residuals(const ReadResiduals& read, Where where = Where::current());

  // Removes the poison of failed ops from what is stored and the optimizer's state: values are those before the first one.
  void clear_errors(Where where = Where::current());

  // Memory from which this key's gradient is pushed without a copy, for lend_gradient_memory(): the same each time. A push
  // leaves the sum there. Undefined where it would save nothing.
  virtual NDArray gradient_memory(Key key) { return (void)key, NDArray(); }

  // Blocks until all workers have called it. Ops pushed after it see everything that any worker pushed before.
  void barrier(Where where = Where::current());

  // push, then pull. In a dist store one op, which does not wait for the answer to the push before it pulls.
  void push_pull(Key key, std::span<const NDArray> values, std::span<const NDArray> out,
                 const UpdateOptions& options = {}, Where where = Where::current());
  // init, then pull: every `out` starts from one value.
  void broadcast(Key key, const NDArray& value, std::span<const NDArray> out, Where where = Where::current());

  // For many keys in one call, with one array each: as the calls above one key after the other, also for a key that comes
  // twice. Dist stores send small values of keys that follow each other as one op with one error. Other lengths throw.
  void push(std::span<const Key> keys, std::span<const NDArray> values, const UpdateOptions& options = {},
            Where where = Where::current());
  void pull(std::span<const Key> keys, std::span<const NDArray> out, Where where = Where::current());
  void push_pull(std::span<const Key> keys, std::span<const NDArray> values, std::span<const NDArray> out,
                 const UpdateOptions& options = {}, Where where = Where::current());

  // For lists written in place, and for one array.
  void push(Key key, std::initializer_list<NDArray> values, const UpdateOptions& options = {},
            Where where = Where::current());
  void push(Key key, const NDArray& value, const UpdateOptions& options = {}, Where where = Where::current());
  void pull(Key key, std::initializer_list<NDArray> out, Where where = Where::current());
  void pull(Key key, const NDArray& out, Where where = Where::current());

 private:
  // What the calls above do, once the place of the call is known. They check all, then begin.
  virtual void do_init(Key key, const NDArray& value) = 0;
  virtual void do_push(Key key, std::span<const NDArray> values, const UpdateOptions& options) = 0;
  virtual void do_pull(Key key, std::span<const NDArray> out) = 0;
  virtual void do_push_rows(Key key, const RowSparse& value, const UpdateOptions& options) = 0;
  virtual RowSparse do_pull_rows(Key key, const NDArray& rows, const NDArray* out) = 0;  // out may be null
  virtual void do_push_pull(Key key, std::span<const NDArray> values, std::span<const NDArray> out,
                            const UpdateOptions& options) = 0;
  // `values` and `out`, of which one may be empty, are as long as `keys`.
  virtual void do_list(std::span<const Key> keys, std::span<const NDArray> values,
                       std::span<const NDArray> out, const UpdateOptions& options) = 0;
  virtual void do_assign(Key key, const NDArray& value) = 0;
  virtual void do_set_optimizer(const std::string& name, const OptimizerParams& params,
                                const std::string& weights) = 0;
  virtual void do_set_optimizer_state(const std::map<std::string, NDArray>& state) = 0;
  virtual std::map<std::string, NDArray> do_residuals() const { return {}; }
  virtual std::map<std::string, NDArray> do_set_residuals(const ReadResiduals& read, bool only_check);
  virtual void do_clear_errors() = 0;
  virtual void do_barrier() = 0;
};

}  // namespace heddle
