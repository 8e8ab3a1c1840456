// Dispatch for kernels that exist for floating dtypes only.
#pragma once

#include <type_traits>

#include <heddle/dtype.h>
#include <heddle/half.h>

namespace heddle::cpu_kernels {

// Calls fn.template operator()<T>() with float or double. The operator's rule has refused every other dtype.
template <class F> void visit_floating(DType dtype, F&& fn) {
  if (dtype == DType::f64) {
    fn.template operator()<double>();
  } else {
    fn.template operator()<float>();
  }
}

// Calls fn.template operator()<T>() with float, double, Float16 or BFloat16.
template <class F> void visit_floating_or_half(DType dtype, F&& fn) {
  if (dtype == DType::f16) {
    fn.template operator()<Float16>();
  } else if (dtype == DType::bf16) {
    fn.template operator()<BFloat16>();
  } else {
    visit_floating(dtype, fn);
  }
}

// The type in which numbers of type T are computed.
template <class T> using ComputeType = std::conditional_t<is_half_type<T>, float, T>;

}  // namespace heddle::cpu_kernels
