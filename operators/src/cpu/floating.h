// Dispatch for kernels that exist for f32 and f64 only.
#pragma once

#include <heddle/dtype.h>

namespace heddle::cpu_kernels {

// Calls fn.template operator()<T>() with float or double. The operator's rule has refused every other dtype.
template <class F> void visit_floating(DType dtype, F&& fn) {
  if (dtype == DType::f64) {
    fn.template operator()<double>();
  } else {
    fn.template operator()<float>();
  }
}

}  // namespace heddle::cpu_kernels
