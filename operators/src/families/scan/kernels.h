// Kernel types of the scans.
#pragma once

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

// x and y are contiguous and of one shape and dtype: f32, f64, or integers of 64 bits for sums and products.
using ScanKernel = void(const KernelContext& context, const NDArray& x, const NDArray& y, int axis);

// The gradient of cumprod: y from the gradient of its result and its input. All are contiguous, f32 or f64.
using CumprodGradientKernel = void(const KernelContext& context, const NDArray& gradient, const NDArray& x,
                                   const NDArray& y, int axis);

// values, contiguous like x: the largest, or smallest, element up to each along the axis; NaN if any is. indices (i64): where
// the last such element stands. f32, f64, integers or bool.
using ScanExtremeKernel = void(const KernelContext& context, const NDArray& x, const NDArray& values,
                               const NDArray& indices, int axis);

}  // namespace heddle
