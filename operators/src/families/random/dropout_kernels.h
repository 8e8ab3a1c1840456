// The kernel type of dropout.
#pragma once

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

// y = x * scale where mask is not 0, else 0. All arrays are contiguous, of one floating dtype and shape. The
// same kernel makes the gradient of x from that of y.
using DropoutKernel = void(const KernelContext& context, const NDArray& x, const NDArray& mask, double scale,
                           const NDArray& y);

}  // namespace heddle
