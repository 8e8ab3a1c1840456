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

// The bits of elements at ... at + 3 of 1, 2 or 4 bytes in one load. False if they are not aligned, or larger.
HEDDLE_DEVICE inline bool load_four_bits(const void* from, long long at, int size, std::uint32_t (&to)[4]) {
  if (size == 1) {
    const auto* const x = static_cast<const std::uint8_t*>(from) + at;
    if (!is_aligned<std::uint8_t, 4>(x)) return false;
    const auto four = *reinterpret_cast<const Adjacent<std::uint8_t, 4>*>(x);
    for (int j = 0; j < 4; ++j) to[j] = four.values[j];
    return true;
  }
  if (size == 2) {
    const auto* const x = static_cast<const std::uint16_t*>(from) + at;
    if (!is_aligned<std::uint16_t, 4>(x)) return false;
    const auto four = *reinterpret_cast<const Adjacent<std::uint16_t, 4>*>(x);
    for (int j = 0; j < 4; ++j) to[j] = four.values[j];
    return true;
  }
  const auto* const x = static_cast<const std::uint32_t*>(from) + at;
  if (size != 4 || !is_aligned<std::uint32_t, 4>(x)) return false;
  const auto four = *reinterpret_cast<const Adjacent<std::uint32_t, 4>*>(x);
  for (int j = 0; j < 4; ++j) to[j] = four.values[j];
  return true;
}

// What an element of these bits is: as a bool whether it is not 0, else an integer or bool as one of 64 bits.
template <class V> HEDDLE_DEVICE inline V value_of_bits(std::uint32_t bits, on_gpu::Type type) {
  using on_gpu::Type;
  if constexpr (std::is_same_v<V, bool>) {
    const bool half = type == Type::f16 || type == Type::bf16;
    return (half ? bits & 0x7fff : type == Type::f32 ? bits & 0x7fffffff : bits) != 0;
  } else {
    if (type == Type::i8) return static_cast<V>(static_cast<std::int8_t>(bits));
    if (type == Type::i16) return static_cast<V>(static_cast<std::int16_t>(bits));
    if (type == Type::i32) return static_cast<V>(static_cast<std::int32_t>(bits));
    return type == Type::boolean ? bits != 0 : bits;
  }
}

}  // namespace heddle::cuda_kernels
