// Optimizers: an update is one op, which reads the gradient and mutates the weight and the optimizer's state.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <heddle/key.h>
#include <heddle/ndarray.h>
#include <heddle/row_sparse.h>

namespace heddle {

namespace operators_detail {
struct OptimizerRule;
struct UpdateCall;
struct UpdatedArrays;
}  // namespace operators_detail

using OptimizerParams = std::map<std::string, double>;  // switches such as nesterov are 0 or 1

struct UpdateOptions {
  std::optional<double> lr{};  // learning rate of this update; without it the optimizer's own "lr"
  double grad_scale = 1;       // factor of the gradient: 1 / batch for gradients of a sum
  double decay_scale = 1;      // factor of the optimizer's weight_decay: 0 for a weight without
  NDArray scale{};  // one more factor of the gradient, f32 or f64 on cpu(): read when the update runs
};

// Keeps the state (momenta, counts) of any number of weights, each under a key. Not thread-safe. Updates are ordered
// with other ops by the vars of the arrays.
class Optimizer {
 public:
  const std::string& name() const { return name_; }
  const OptimizerParams& params() const { return params_; }  // given ones and defaults of the others

  // Throws the InvalidArgument that update() would throw for a gradient like the weight, and pushes nothing.
  void check(Key key, const NDArray& weight, const UpdateOptions& options) const;

  // Pushes one op. weight: f32 or f64, contiguous; grad: like weight, on its device. The state follows a weight that
  // Module::to() has moved. Throws InvalidArgument.
  void update(Key key, const NDArray& weight, const NDArray& grad, UpdateOptions options = {},
              Where where = Where::current());

  // update() of each weight by the gradient of its place, keys without repeats. One op updates many small weights: an
  // error of one gradient skips all of that op.
  void update_all(std::span<const Key> keys, std::span<const NDArray> weights, std::span<const NDArray> grads,
                  const UpdateOptions& options = {}, Where where = Where::current());

  // Whether a step needs the norm of the whole weight, as those of lamb and lars do: then row-sparse gradients are
  // refused, and so are stores that split weights ("dist_sync", "dist_async").
  bool needs_whole() const;
  void check_rows(Key key) const;  // throws the InvalidArgument of such a gradient

  // Updates the rows that grad has, at a cost in proportion to their number. Other rows keep weight and state: each row
  // is updated as a weight of its own that skips the updates in which it is absent. A dense gradient of zeros would
  // decay the momenta and the weights of such rows. sgd without momentum and weight_decay changes weights as for
  // the dense gradient. Throws InvalidArgument for an optimizer that needs_whole().
  void update(Key key, const NDArray& weight, const RowSparse& grad, UpdateOptions options = {},
              Where where = Where::current());

  // "KEY.velocity" and so on, and "KEY.updates" (i64, one element): handles on the live arrays, to be saved. With
  // row-sparse gradients, of adam and others whose steps depend on the count of updates, also "KEY.row_updates" (i64,
  // one per row; all -1: there was no such gradient yet).
  std::map<std::string, NDArray> state() const;

  // Grows where updates of a weight are other ops from now on: with its first row-sparse update, and when its state has followed
  // it to another device. Updates captured earlier have to be captured anew.
  std::uint64_t generation() const { return generation_; }

  // Removes the poison that failed gradients left in the state. Updates that were skipped changed nothing, and do not
  // count, so the state is that of the last update that worked. The errors of the weights stay.
  void clear_errors(Where where = Where::current());

  // Replaces all state by copies of `state`, which state() gave earlier. Blocks for the counts. Throws InvalidArgument
  // before anything is changed. With `weights`, which has the weights by key, throws also for state of a key that it
  // does not have, and for state whose shape or dtype is not that of the weight.
  using Weights = std::map<Key, NDArray>;
  void set_state(const std::map<std::string, NDArray>& state, Where where = Where::current());
  void set_state(const std::map<std::string, NDArray>& state, const Weights& weights,
                 Where where = Where::current());

 private:
  struct Slot {
    std::vector<NDArray> arrays;  // the state's arrays, in the order of state_
    NDArray updates;      // i64, one element on cpu(): counted by the updates, so that skipped ones are not
    NDArray row_updates;  // updates of each row: i64 (n), on the weight's device; undefined if not needed
    bool packed = false;  // whether arrays and updates are parts of arrays that hold those of many weights
    bool used = false;    // whether an op has been pushed that updates them
  };
  friend std::unique_ptr<Optimizer> create_optimizer(const std::string& name, const OptimizerParams& params);
  Optimizer(const operators_detail::OptimizerRule& rule, const OptimizerParams& given);
  double param(const std::string& key) const { return params_.at(key); }
  operators_detail::UpdateCall call_of(const UpdateOptions& options) const;
  operators_detail::UpdatedArrays arrays_of(const NDArray& weight, const Slot& slot) const;
  void update_rows(const NDArray& weight, const RowSparse& grad, Slot& slot, const UpdateOptions& options);
  void replace_state(const std::map<std::string, NDArray>& state, const Weights* weights);
  void check_options(const UpdateOptions& options) const;
  void check_like_weight(Key key, const NDArray& weight, DType dtype, const Shape& shape) const;
  std::string text_of(Key key) const;
  Slot& slot_of(Key key, const NDArray& weight);
  void follow(Key key, const NDArray& weight, Slot& slot);
  void check_device(Key key, const NDArray& weight, Device gradient) const;
  struct ListOp;
  struct List;
  std::shared_ptr<const List> list_of(std::span<const Key> keys, std::span<const NDArray> weights);
  std::shared_ptr<List> make_list(std::span<const Key> keys, std::span<const NDArray> weights);
  void pack(std::span<const Key> keys, std::span<const NDArray> weights, std::span<const std::size_t> places);
  void fill(ListOp& op, std::span<const Key> keys, std::span<const NDArray> weights);
  void check_alike(Key key, const NDArray& weight, const NDArray& grad) const;
  void set_entry(Slot& slot, const std::string& entry, const NDArray& value, const NDArray& weight) const;
  const operators_detail::OptimizerRule* rule_;
  std::string name_;
  OptimizerParams params_;
  std::shared_ptr<const std::vector<double>> values_;  // of params_, in the order of the rule
  std::vector<std::string> state_;                     // names of the state's arrays
  bool counts_rows_;                                   // whether rows have counts of updates
  std::map<Key, Slot> slots_;
  std::uint64_t generation_ = 0;
  std::vector<std::shared_ptr<const List>> lists_;  // of the last calls of update_all()
};

// Makes an optimizer by its name, such as "adamw", with the parameters that differ from the defaults. Throws
// InvalidArgument saying what exists.
std::unique_ptr<Optimizer> create_optimizer(const std::string& name, const OptimizerParams& params = {});

// What create_optimizer() makes, in the order of the names.
struct OptimizerInfo {
  struct Param {
    std::string name;
    double value;       // the default
    std::string range;  // the values that it may have: "in [0, 1)"
    bool added_later;   // servers of earlier versions know the optimizer without it
  };
  std::string name, documentation;
  std::vector<Param> params;
  std::vector<std::string> state;  // names of the arrays of its state, with the default parameters
  bool needs_whole;                // as Optimizer::needs_whole()
};
std::vector<OptimizerInfo> optimizers();

}  // namespace heddle
