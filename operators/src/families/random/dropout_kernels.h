// The kernel type of dropout.
#pragma once

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

// What becomes of an element x that is kept, x * scale + shift, and of one that is dropped.
struct DropoutMap {
  double scale = 1, shift = 0, dropped = 0;
};

// An element of mask, 0 or 1, says whether x.size() / mask.size() adjacent elements of x are kept. All arrays are contiguous, of one dtype,
// f32 or f64. The same kernel makes the gradient of x from that of y, without shift.
using DropoutKernel = void(const KernelContext& context, const NDArray& x, const NDArray& mask,
                           const DropoutMap& map, const NDArray& y);

}  // namespace heddle
