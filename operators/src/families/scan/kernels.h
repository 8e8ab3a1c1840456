// Kernel types of the scans.
#pragma once

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

// For cumsum, cumprod and product_of_others. x and y are contiguous and of one shape and dtype: f32, f64, or,
// for sums and products, 64-bit integers.
using ScanKernel = void(const KernelContext& context, const NDArray& x, const NDArray& y, int axis);

// The gradient of cumprod: y from the gradient of the result and from cumprod's input x. All are contiguous,
// f32 or f64.
using CumprodGradientKernel = void(const KernelContext& context, const NDArray& gradient, const NDArray& x,
                                   const NDArray& y, int axis);

// For cummax and cummin. values, contiguous like x: the largest, or smallest, element up to each along the
// axis; NaN if any of them is. indices (i64): the index of the last such element. x is f32, f64, integers or
// bool.
using ScanExtremeKernel = void(const KernelContext& context, const NDArray& x, const NDArray& values,
                               const NDArray& indices, int axis);

}  // namespace heddle
