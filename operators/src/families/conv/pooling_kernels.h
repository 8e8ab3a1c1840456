// The kernels of pooling that a device provides.
#pragma once

#include <cstdint>

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

// The parameters of a pooling. Index 0 is height, 1 is width.
struct PoolProblem {
  std::int64_t planes;  // N * C
  std::int64_t in[2], out[2];
  std::int64_t kernel[2], stride[2], padding[2];
  bool count_include_pad;
};

// Arrays are contiguous. `where` is the position of each maximum in its window, row * kernel width + column: u8 if the
// window has at most 256 elements, else i32. It may be undefined in the forward pass if no gradient is needed.
using MaxPoolKernel = void(const KernelContext& context, const PoolProblem& problem, const NDArray& x,
                           const NDArray& y, const NDArray& where);
using MaxPoolBackwardKernel = void(const KernelContext& context, const PoolProblem& problem,
                                   const NDArray& grad, const NDArray& where, const NDArray& x_grad);
using AvgPoolKernel = void(const KernelContext& context, const PoolProblem& problem, const NDArray& x,
                           const NDArray& y);
using AvgPoolBackwardKernel = void(const KernelContext& context, const PoolProblem& problem,
                                   const NDArray& grad, const NDArray& x_grad);

}  // namespace heddle
