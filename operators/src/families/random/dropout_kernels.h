// What dropout asks of a device.
#pragma once

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

// y = x * scale where mask is not 0, else 0. Contiguous, of one floating dtype and shape; the gradient is the same
// function of the gradient.
using DropoutKernel = void(const KernelContext& context, const NDArray& x, const NDArray& mask, double scale,
                           const NDArray& y);

}  // namespace heddle
