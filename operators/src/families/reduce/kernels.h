// Kernel types of the reductions.
#pragma once

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

// y is contiguous, of x's shape with size 1 at `axes` (rising, not negative). For sum, prod, mean, max,
// min, any, all, count_nonzero; of f32 and f64 for norm, the root of the sum of squares, and sum_of_squares, whose y is f64.
using ReduceKernel = void(const KernelContext& context, const NDArray& x, const NDArray& y, const Dims& axes);

// y is contiguous, i64, of x's shape with size 1 at `axis`. For argmax, argmin.
using ArgReduceKernel = void(const KernelContext& context, const NDArray& x, const NDArray& y, int axis);

}  // namespace heddle
