// A key-value store of weights: push gradients, pull weights. Calls push engine ops; some block, and say so.
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

// Keeps an array for each key. Not thread-safe. All arrays of a key have the shape and dtype of its init(). A call with an unknown key,
// an init() of a known key, and an array of another shape or dtype throw InvalidArgument before anything is done.
class KVStore {
 public:
  using Key = heddle::Key;
  using ReadResiduals = std::function<std::map<std::string, NDArray>()>;
  // "local": in this process, for any number of devices. "allreduce": every rank of the launched job keeps all values; pushes
  // are summed over the ranks. All ranks make the same calls in one order, except optimizer_state and gradient_memory; if kind, key,
  // shape, learning rate or scale differ, arrays fail with CommMismatch. "dist_sync", "dist_async", "dist_ssp:S": on servers that
  // HEDDLE_STORE_SCHEDULER, HEDDLE_STORE_ETCD or HEDDLE_SERVERS names (docs/kvstore.md). Throws InvalidArgument.
  static std::unique_ptr<KVStore> create(const std::string& type = "local", Where where = Where::current());
  static std::unique_ptr<KVStore> create(const std::string& type, const KVStoreOptions& options,
                                         Where where = Where::current());
  // An "allreduce" store over these ranks. Every rank calls it and blocks until all have; options that differ are InvalidArgument.
  static std::unique_ptr<KVStore> create(const std::string& type, std::shared_ptr<Communicator> ranks,
                                         const KVStoreOptions& options = {}, Where where = Where::current());
  // Waits for all ops. After an error, a dist_ store waits for pushes only: pulls fail with StoreError.
  virtual ~KVStore() = default;
  virtual std::string type() const = 0;
  virtual int rank() const { return 0; }     // number of this process among the workers, from 0
  virtual int workers() const { return 1; }  // number of workers, the processes that push to the store
  virtual std::shared_ptr<Communicator> communicator() const { return {}; }  // of "allreduce"; else null
  // Stores a copy of value on value's device. With several workers, the value of rank 0 is stored.
  void init(Key key, const NDArray& value, Where where = Where::current());
  // As init(), but a "local" store keeps a contiguous array itself: pushes change it, a pull into it does nothing.
  void adopt(Key key, const NDArray& value, Where where = Where::current());

  // Sums the values, one per device, in the order given. With an optimizer the sum is the gradient that
  // updates the stored value; without one it replaces the stored value.
  void push(Key key, std::span<const NDArray> values, const UpdateOptions& options = {},
            Where where = Where::current());
  // Copies the stored value into each array of `out`, on the array's device.
  void pull(Key key, std::span<const NDArray> out, Where where = Where::current());

  // push() of some rows of a key with a floating dtype: the rows are summed, and no other row changes. An optimizer updates
  // each row as a weight of its own (see Optimizer::update); without one rows are replaced. Only these rows travel. If
  // another worker pushes a whole value in the same round of "dist_sync", the sum is a whole value, too. On an "allreduce"
  // store it blocks until all ranks make this call.
  void push(Key key, std::span<const RowSparse> values, const UpdateOptions& options = {},
            Where where = Where::current());
  void push(Key key, const RowSparse& value, const UpdateOptions& options = {},
            Where where = Where::current());

  // Copies rows of the stored value, of a floating dtype: out[i], of (rows, d...), becomes row rows[i]. Only these rows
  // travel, each once. rows: one axis of i32 or i64, in any order; out of range: op error.
  void pull_rows(Key key, const NDArray& rows, const NDArray& out, Where where = Where::current());
  RowSparse pull_rows(Key key, const NDArray& rows, Where where = Where::current());
  // Overwrites the stored value without the optimizer. With several workers, the value of rank 0 is taken.
  void assign(Key key, const NDArray& value, Where where = Where::current());
  // Later pushes use this optimizer (create_optimizer), with new state, or "add": value += grad_scale * sum. Blocks
  // until all workers call it. If optimizers or `weights` ("w f32 (3,), b f32 ()") differ, all throw.
  void set_optimizer(const std::string& name, const OptimizerParams& params = {},
                     Where where = Where::current());
  void set_optimizer(const std::string& name, const OptimizerParams& params, const std::string& weights,
                     Where where = Where::current());

  // State of the optimizer; empty without one. It lacks pushes that an "allreduce" store has not reduced yet, since nothing
  // was pulled after them. Setting throws InvalidArgument, before anything is changed, for state that does not fit. It blocks
  // until all workers call it; all throw if one refuses or, on "allreduce", counts of updates differ. Rank 0's is taken.
  virtual std::map<std::string, NDArray> optimizer_state() const = 0;
  void set_optimizer_state(const std::map<std::string, NDArray>& state, Where where = Where::current());

  // Values (f32) that compression has left out of this worker's pushes, for a checkpoint; empty without compression. They
  // fit stores with as many workers and the same keys. Blocks, and rethrows errors.
  std::map<std::string, NDArray> residuals(Where where = Where::current()) const;
  // An empty map sets all residuals to 0. Throws InvalidArgument before anything is changed. Blocks until all workers
  // call it; all throw if one refuses. On "allreduce" either all ranks set residuals, or none does.
  void set_residuals(const std::map<std::string, NDArray>& residuals, Where where = Where::current());
  // Returns what `read` returns if set_residuals would take it, else all workers throw. Changes nothing.
  std::map<std::string, NDArray> check_residuals(const ReadResiduals& read, Where where = Where::current());

  // Clears errors. Stored values and optimizer state are as they were before the first failed op.
  void clear_errors(Where where = Where::current());

  // Memory for lend_gradient_memory(), from which this key's gradient is pushed without a copy; the same array each time. A push leaves
  // the sum over the ranks in it. Undefined if it would save nothing.
  virtual NDArray gradient_memory(Key key) { return (void)key, NDArray(); }

  // Blocks until all workers have called it. Later ops see everything that any worker pushed before it.
  void barrier(Where where = Where::current());
  // push, then pull. A dist store does both in one op: the pull does not wait for the push's answer.
  void push_pull(Key key, std::span<const NDArray> values, std::span<const NDArray> out,
                 const UpdateOptions& options = {}, Where where = Where::current());
  // init, then pull: every array of `out` gets the stored value.
  void broadcast(Key key, const NDArray& value, std::span<const NDArray> out, Where where = Where::current());

  // Calls for many keys, one array for each. They equal single calls in the order of the list; a key may come
  // twice. Dist stores send, and optimizers update, small values of consecutive keys as one op with one error.
  void push(std::span<const Key> keys, std::span<const NDArray> values, const UpdateOptions& options = {},
            Where where = Where::current());
  void pull(std::span<const Key> keys, std::span<const NDArray> out, Where where = Where::current());
  void push_pull(std::span<const Key> keys, std::span<const NDArray> values, std::span<const NDArray> out,
                 const UpdateOptions& options = {}, Where where = Where::current());

  // Overloads for braced lists and for a single array.
  void push(Key key, std::initializer_list<NDArray> values, const UpdateOptions& options = {},
            Where where = Where::current());
  void push(Key key, const NDArray& value, const UpdateOptions& options = {}, Where where = Where::current());
  void pull(Key key, std::initializer_list<NDArray> out, Where where = Where::current());
  void pull(Key key, const NDArray& out, Where where = Where::current());

 private:
  friend class CapturedStep;
  friend class Trainer;
  virtual std::uint64_t do_generation() const { return 0; }  // of the optimizer, see Optimizer::generation()
  virtual void do_max(const NDArray&) {}                     // the largest of all workers' elements, by an op
  // Implementations of the public functions, which set the CallSite. Each of them first checks its arguments.
  virtual void do_init(Key key, const NDArray& value) = 0;
  virtual void do_adopt(Key key, const NDArray& value) { do_init(key, value); }
  virtual void do_push(Key key, std::span<const NDArray> values, const UpdateOptions& options) = 0;
  virtual void do_pull(Key key, std::span<const NDArray> out) = 0;
  virtual void do_push_rows(Key key, const RowSparse& value, const UpdateOptions& options) = 0;
  virtual RowSparse do_pull_rows(Key key, const NDArray& rows, const NDArray* out) = 0;  // out may be null
  virtual void do_push_pull(Key key, std::span<const NDArray> values, std::span<const NDArray> out,
                            const UpdateOptions& options) = 0;
  // A push (`out` is empty), a pull (`values` is empty) or a push_pull of many keys.
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
