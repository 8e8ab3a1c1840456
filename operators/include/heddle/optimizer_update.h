// The update ops of optimizers (optimizer.h), which own the state and check the arrays; one op per update.
#pragma once

#include <cstdint>
#include <utility>

#include <heddle/graph.h>
#include <heddle/ndarray.h>
#include <heddle/row_sparse.h>

namespace heddle::operators_detail {

// What each launch of a captured graph gives the updates in it.
struct UpdateRates {
  double lr, grad_scale;
};

// While one lives, updates that its thread pushes take their rates from this slot, at each launch of the graph that the
// thread captures.
class LaunchedRates {
 public:
  explicit LaunchedRates(Slot<UpdateRates> rates);
  ~LaunchedRates();
  LaunchedRates(const LaunchedRates&) = delete;
  LaunchedRates& operator=(const LaunchedRates&) = delete;
  std::size_t updates() const { return updates_; }  // how many updates were pushed so far
  // What the learning rate of the updates that follow is multiplied by, as of groups of parameters. Without a
  // LaunchedRates does nothing.
  static void set_lr_factor(double factor);

  struct OfUpdate {
    Slot<UpdateRates> rates{};  // of no graph if no LaunchedRates lives
    double lr_factor = 1;
  };
  static OfUpdate take();  // for one update

 private:
  Slot<UpdateRates> rates_;
  double lr_factor_ = 1;
  std::size_t updates_ = 0;
  LaunchedRates* const previous_;
};

// The `step` of an update, whose members lr and grad_scale may be given by each launch. Made when the update is pushed.
template <class Step> class LaunchedStep {
 public:
  explicit LaunchedStep(const Step& step) : step_(step), launched_(LaunchedRates::take()) {}
  Step now() const {  // only inside the op
    Step now = step_;
    if (!launched_.rates.cell()) return now;
    now.lr = launched_.rates->lr * launched_.lr_factor;
    now.grad_scale = launched_.rates->grad_scale;
    return now;
  }

 private:
  Step step_;
  LaunchedRates::OfUpdate launched_;
};

struct SgdStep {
  double lr, grad_scale, momentum, weight_decay;
  bool nesterov;
};

struct AdamStep {
  double lr, grad_scale, beta1, beta2, epsilon, weight_decay;
  bool decoupled;                       // true: weight decay acts on the weight, not on the gradient
  double mean_unbias, variance_unbias;  // 1 / (1 - beta1^updates), 1 / (1 - beta2^updates)
};

// The state that an update changes besides the weight. updates (i64, one element on cpu()) counts updates.
struct SgdState {
  NDArray velocity;  // undefined if there is no momentum
  NDArray updates;
};
struct AdamState {
  NDArray mean, variance, updates;
  NDArray row_updates;  // number of updates of each row of the weight (i64), for row-sparse gradients only
};

// The arrays are contiguous and of one shape and dtype, f32 or f64. The op of adam_update() sets mean_unbias
// and variance_unbias of its copy of `step`.
void sgd_update(const NDArray& weight, const NDArray& grad, const SgdState& state, const SgdStep& step);
void adam_update(const NDArray& weight, const NDArray& grad, const AdamState& state, const AdamStep& step);

// These overloads update the rows of the weight and of its state that are present in grad. Other rows are
// unchanged.
void sgd_update(const NDArray& weight, const RowSparse& grad, const SgdState& state, const SgdStep& step);
void adam_update(const NDArray& weight, const RowSparse& grad, const AdamState& state, const AdamStep& step);

}  // namespace heddle::operators_detail
