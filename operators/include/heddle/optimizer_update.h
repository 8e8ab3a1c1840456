// The update ops of optimizers (optimizer.h), which own the state and check the arrays; one op per update.
#pragma once

#include <cstdint>

#include <heddle/ndarray.h>
#include <heddle/row_sparse.h>

namespace heddle::operators_detail {

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
