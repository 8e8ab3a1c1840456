// Kernel types of softmax and cross entropy.
#pragma once

#include <cstdint>
#include <string>

#include <heddle/error.h>
#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

// Lines along one axis of a contiguous array: `outer` blocks of `length` x `inner` elements; a line's
// elements are `inner` apart.
struct SoftmaxProblem {
  std::int64_t outer, length, inner;
  bool log;
};

// Arrays are contiguous, of one dtype, f32 or f64, and of one shape; labels are i32, i64 or u8. On GPUs x, logits and their gradients may
// also have halves, beside f32; so may y of SoftmaxKernel.
using SoftmaxKernel = void(const KernelContext& context, const SoftmaxProblem& problem, const NDArray& x,
                           const NDArray& y);
using SoftmaxBackwardKernel = void(const KernelContext& context, const SoftmaxProblem& problem,
                                   const NDArray& grad, const NDArray& y, const NDArray& x_grad);

// probabilities = softmax of each row; loss = the mean of -log(probability of the row's label), a scalar.
using CrossEntropyKernel = void(const KernelContext& context, const NDArray& logits, const NDArray& labels,
                                const NDArray& probabilities, const NDArray& loss);
using CrossEntropyBackwardKernel = void(const KernelContext& context, const NDArray& grad,
                                        const NDArray& probabilities, const NDArray& labels,
                                        const NDArray& logits_grad);

[[noreturn]] inline void refuse_label(std::int64_t label, std::int64_t row, std::int64_t classes) {
  throw InvalidArgument("cross_entropy: label " + std::to_string(label) + " at row " + std::to_string(row) +
                        " is outside 0 .. " + std::to_string(classes - 1));
}

}  // namespace heddle
