// Optimizers: an update is one op, which reads the gradient and mutates the weight and the optimizer's state.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <heddle/key.h>
#include <heddle/ndarray.h>
#include <heddle/row_sparse.h>

namespace heddle {

using OptimizerParams = std::map<std::string, double>;  // switches such as nesterov are 0 or 1

struct UpdateOptions {
  std::optional<double> lr{};  // learning rate of this update; without it the optimizer's own "lr"
  double grad_scale = 1;       // factor of the gradient: 1 / batch for gradients of a sum
};

// Keeps the state (momenta, counts) of any number of weights, each under a key. Not thread-safe. Updates are ordered
// with other ops by the vars of the arrays.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  const std::string& name() const { return name_; }
  const OptimizerParams& params() const { return params_; }  // given ones and defaults of the others

  // Throws the InvalidArgument that update() would throw for a gradient like the weight, and pushes nothing.
  void check(Key key, const NDArray& weight, const UpdateOptions& options) const;

  // Pushes one op. weight: f32 or f64, contiguous; grad: like weight. Throws InvalidArgument.
  void update(Key key, const NDArray& weight, const NDArray& grad, UpdateOptions options = {},
              Where where = Where::current());

  // Updates the rows that grad has, at a cost in proportion to their number. Other rows keep weight and state: each row
  // is updated as a weight of its own that skips the updates in which it is absent. A dense gradient of zeros would
  // decay the momenta and the weights of such rows. sgd without momentum and weight_decay changes weights as for
  // the dense gradient.
  void update(Key key, const NDArray& weight, const RowSparse& grad, UpdateOptions options = {},
              Where where = Where::current());

  // "KEY.velocity" and so on, and "KEY.updates" (i64, one element): handles on the live arrays, to be saved. Of adam
  // and adamw with row-sparse gradients also "KEY.row_updates" (i64, one per row; all -1: there was no such gradient
  // yet).
  std::map<std::string, NDArray> state() const;

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

 protected:
  struct Slot {
    std::vector<NDArray> arrays;  // the state's arrays, in the order of state_names()
    NDArray updates;      // i64, one element on cpu(): counted by the updates, so that skipped ones are not
    NDArray row_updates;  // updates of each row: i64 (n), on the weight's device; undefined if not needed
  };
  Optimizer(std::string name, OptimizerParams defaults, const OptimizerParams& given);
  double param(const std::string& key) const { return params_.at(key); }
  virtual std::vector<std::string> state_names() const = 0;
  virtual void push_update(const NDArray& weight, const NDArray& grad, const Slot& slot, double lr,
                           double grad_scale) const = 0;
  virtual bool counts_rows() const = 0;  // whether slots may have row_updates, which push_row_update() makes
  virtual void push_row_update(const NDArray& weight, const RowSparse& grad, Slot& slot, double lr,
                               double grad_scale) const = 0;

 private:
  void replace_state(const std::map<std::string, NDArray>& state, const Weights* weights);
  void check_options(const UpdateOptions& options) const;
  void check_like_weight(Key key, const NDArray& weight, DType dtype, const Shape& shape) const;
  std::string text_of(Key key) const;
  Slot& slot_of(Key key, const NDArray& weight);
  void set_entry(Slot& slot, const std::string& entry, const NDArray& value, const NDArray& weight) const;
  std::string name_;
  OptimizerParams params_;
  std::map<Key, Slot> slots_;
};

// Makes an optimizer by its name, with the parameters that differ from the defaults. Throws InvalidArgument
// saying what exists.
//   sgd    lr 0.01, momentum 0, nesterov 0, weight_decay 0 (added to the gradient)
//   adam   lr 0.001, beta1 0.9, beta2 0.999, epsilon 1e-8, weight_decay 0 (Kingma and Ba, ICLR'15)
//   adamw  as adam, weight_decay 0.01 taken from the weight itself (Loshchilov and Hutter, ICLR'19)
std::unique_ptr<Optimizer> create_optimizer(const std::string& name, const OptimizerParams& params = {});

}  // namespace heddle
