// How elementwise kernels load and store elements, one or several at once.
#pragma once

#include "gpu/elements.h"

namespace heddle::cuda_kernels {

using on_gpu::Type;

// take() loads an element, put() stores one. f16 and bf16 are computed as float.
template <class T> HEDDLE_DEVICE T take(const void* from, long long at, Type type) {
  if constexpr (std::is_same_v<T, float>)
    return on_gpu::load<float>(from, at, type);
  else if constexpr (std::is_same_v<T, bool>)
    return static_cast<const unsigned char*>(from)[at] != 0;
  else
    return static_cast<const T*>(from)[at];
}
template <class R> HEDDLE_DEVICE void put(void* to, long long at, Type type, R value) {
  if constexpr (std::is_same_v<R, float>) {
    if (type == Type::f16)
      static_cast<on_gpu::F16*>(to)[at] = on_gpu::narrow(value, on_gpu::F16{});
    else if (type == Type::bf16)
      static_cast<on_gpu::BF16*>(to)[at] = on_gpu::narrow(value, on_gpu::BF16{});
    else
      static_cast<float*>(to)[at] = value;
  } else {
    static_cast<R*>(to)[at] = value;
  }
}

template <class T, int count> struct alignas(sizeof(T) * count) Pack { T values[count]; };

HEDDLE_DEVICE inline float widened(std::uint16_t bits, Type type) {
  return type == Type::f16 ? on_gpu::widen(on_gpu::F16{bits}) : on_gpu::widen(on_gpu::BF16{bits});
}
HEDDLE_DEVICE inline std::uint16_t narrowed(float value, Type type) {
  return type == Type::f16 ? on_gpu::narrow(value, on_gpu::F16{}).bits
                           : on_gpu::narrow(value, on_gpu::BF16{}).bits;
}

// Pack i of an array of elements that are computed as T, and of one of results.
template <class T, int count>
HEDDLE_DEVICE Pack<T, count> take_pack(const void* from, long long i, Type type) {
  if constexpr (std::is_same_v<T, float>) {
    if (type == Type::f16 || type == Type::bf16) {
      const auto halves = static_cast<const Pack<std::uint16_t, count>*>(from)[i];
      Pack<T, count> pack;
      for (int j = 0; j < count; ++j) pack.values[j] = widened(halves.values[j], type);
      return pack;
    }
  }
  return static_cast<const Pack<T, count>*>(from)[i];
}
template <class R, int count>
HEDDLE_DEVICE void put_pack(void* to, long long i, Type type, const Pack<R, count>& pack) {
  if constexpr (std::is_same_v<R, float>) {
    if (type == Type::f16 || type == Type::bf16) {
      Pack<std::uint16_t, count> halves;
      for (int j = 0; j < count; ++j) halves.values[j] = narrowed(pack.values[j], type);
      static_cast<Pack<std::uint16_t, count>*>(to)[i] = halves;
      return;
    }
  }
  static_cast<Pack<R, count>*>(to)[i] = pack;
}

}  // namespace heddle::cuda_kernels
