// The updates of optimizers (optimizer.h), which keep the state and check the arrays. Each is one op.
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
  bool decoupled;                       // the decay acts on the weight, not on the gradient
  double mean_unbias, variance_unbias;  // 1 / (1 - beta^updates)
};

// What an update changes beside the weight. updates (i64, one element on cpu()) counts it.
struct SgdState {
  NDArray velocity;  // undefined without momentum
  NDArray updates;
};
struct AdamState {
  NDArray mean, variance, updates;
  NDArray row_updates;  // i64, one a row of the weight; for row-sparse gradients alone
};

// The arrays are contiguous and of one shape and dtype, f32 or f64. mean_unbias and variance_unbias of `step` need not be set: the op computes them.
void sgd_update(const NDArray& weight, const NDArray& grad, const SgdState& state, const SgdStep& step);
void adam_update(const NDArray& weight, const NDArray& grad, const AdamState& state, const AdamStep& step);

// Updates of single rows: those of the weight and its state that are present in grad. Other rows stay as they are.
void sgd_update(const NDArray& weight, const RowSparse& grad, const SgdState& state, const SgdStep& step);
void adam_update(const NDArray& weight, const RowSparse& grad, const AdamState& state, const AdamStep& step);

}  // namespace heddle::operators_detail
