// Kernel types of the reductions.
#pragma once

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

// y is contiguous, of x's shape with size 1 at `axes` (ascending, not negative). For sum, prod, mean, max,
// min, any, all and count_nonzero; for norm, the root of the sum of squares, and sum_of_squares x is f32 or
// f64, and y of sum_of_squares is f64. On GPUs x may also have halves: then y of sum, prod and mean is f32.
using ReduceKernel = void(const KernelContext& context, const NDArray& x, const NDArray& y, const Dims& axes);

// For argmax and argmin. y is contiguous, i64, of x's shape with size 1 at `axis`.
using ArgReduceKernel = void(const KernelContext& context, const NDArray& x, const NDArray& y, int axis);

}  // namespace heddle
