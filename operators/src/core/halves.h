// Halves that a kernel reads as they are. Other kernels are given f32 copies of whole arrays.
#pragma once

#include <heddle/ndarray.h>

namespace heddle::operators_detail {

// Whether x has halves, and reductions and softmax read them: on GPUs.
inline bool reads_halves(const NDArray& x) {
  return is_half(x.dtype()) && x.device().kind == DeviceKind::cuda;
}

}  // namespace heddle::operators_detail
