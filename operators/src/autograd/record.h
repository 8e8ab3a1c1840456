// What operators with a gradient share.
#pragma once

#include <vector>

#include <heddle/autograd.h>

namespace heddle::operators_detail {

// True while a Backward runs whose operators are recorded. A Backward that pushes kernels of its own, which are not recorded,
// computes by operators then, or calls refuse_second_gradient().
bool differentiating_gradient();

// record() for an operator whose Backward keeps no array that it returns, but grad_output and saved ones: a leaf takes it as its
// gradient without a copy.
void record_op(const char* name, NDArray& output, std::vector<NDArray> inputs, std::vector<NDArray> saved,
               Backward backward, Where where = Where::current());

// Throws Error that names `op`: there is no second gradient.
[[noreturn]] void refuse_second_gradient(const char* op);

// The priority of the gradients of weights, above those of inputs, with which the backward pass goes on: so that ranks
// reduce the gradients of weights during the pass, not after it.
inline constexpr int kWeightsFirst = 1;

// The gradient of an input of `shape` that was broadcast: sums `gradient` over the axes that broadcasting made or
// stretched.
NDArray sum_to_shape(const NDArray& gradient, const Shape& shape);

}  // namespace heddle::operators_detail
