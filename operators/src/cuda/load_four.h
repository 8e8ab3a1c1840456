// Loads of four adjacent elements.
#pragma once

#include "gpu/elements.h"

namespace heddle::cuda_kernels {

template <class T, int count> struct alignas(sizeof(T) * count) Adjacent { T values[count]; };

template <class T, int count> HEDDLE_DEVICE inline bool is_aligned(const T* from) {
  return reinterpret_cast<unsigned long long>(from) % sizeof(Adjacent<T, count>) == 0;
}

// Elements at ... at + 3 of a floating array, of a type that As holds exactly, in few loads if they are aligned.
template <class As>
HEDDLE_DEVICE inline void load_four(const void* from, long long at, on_gpu::Type type, As (&to)[4]) {
  if constexpr (std::is_same_v<As, double>) {
    const double* const x = static_cast<const double*>(from) + at;
    if (is_aligned<double, 2>(x)) {
      const auto low = *reinterpret_cast<const Adjacent<double, 2>*>(x),
                 high = *reinterpret_cast<const Adjacent<double, 2>*>(x + 2);
      to[0] = low.values[0], to[1] = low.values[1], to[2] = high.values[0], to[3] = high.values[1];
      return;
    }
  } else if (type == on_gpu::Type::f32) {
    const float* const x = static_cast<const float*>(from) + at;
    if (is_aligned<float, 4>(x)) {
      const auto four = *reinterpret_cast<const Adjacent<float, 4>*>(x);
      for (int j = 0; j < 4; ++j) to[j] = four.values[j];
      return;
    }
  } else {
    const std::uint16_t* const x = static_cast<const std::uint16_t*>(from) + at;
    if (is_aligned<std::uint16_t, 4>(x)) {
      const auto four = *reinterpret_cast<const Adjacent<std::uint16_t, 4>*>(x);
      for (int j = 0; j < 4; ++j)
        to[j] = type == on_gpu::Type::f16 ? widen(on_gpu::F16{four.values[j]})
                                          : widen(on_gpu::BF16{four.values[j]});
      return;
    }
  }
  for (int j = 0; j < 4; ++j) to[j] = on_gpu::load<As>(from, at + j, type);
}

}  // namespace heddle::cuda_kernels
