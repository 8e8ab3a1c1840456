// Kernels from function objects, chosen by dtype. N is the number of operands; Result is bool, or void: the results have the type
// in which the operands are computed.
#pragma once

#include "families/elementwise/cuda/map.h"

namespace heddle::cuda_kernels {

template <class F, class T, class Result, int N> const char* map_as(void* stream, const Elements& elements) {
  return map<F, T, std::conditional_t<std::is_void_v<Result>, T, Result>, N>(stream, elements);
}

template <class F, class Result, int N> const char* map_floating(void* stream, const Elements& elements) {
  if (Type{elements.dtype} == Type::f64) return map_as<F, double, Result, N>(stream, elements);
  return map_as<F, float, Result, N>(stream, elements);
}

// Integers and bools as unsigned numbers, for functions to which their sign makes no difference.
template <class F, class Result, int N> const char* map_unsigned(void* stream, const Elements& elements) {
  switch (on_gpu::size_of(Type{elements.dtype})) {
    case 8:
      return map_as<F, std::uint64_t, Result, N>(stream, elements);
    case 4:
      return map_as<F, std::uint32_t, Result, N>(stream, elements);
    case 2:
      return map_as<F, std::uint16_t, Result, N>(stream, elements);
    default:
      if (Type{elements.dtype} == Type::boolean) return map_as<F, bool, Result, N>(stream, elements);
      return map_as<F, std::uint8_t, Result, N>(stream, elements);
  }
}

// For functions of bits, which floating numbers do not have.
template <class F, int N> const char* map_bits(void* stream, const Elements& elements) {
  return map_unsigned<F, void, N>(stream, elements);
}

constexpr bool is_floating(Type type) {
  return type == Type::f32 || type == Type::f64 || type == Type::f16 || type == Type::bf16;
}

template <class F, class Result, int N> const char* map_words(void* stream, const Elements& elements) {
  if (is_floating(Type{elements.dtype})) return map_floating<F, Result, N>(stream, elements);
  return map_unsigned<F, Result, N>(stream, elements);
}

template <class F, class Result, int N> const char* map_numbers(void* stream, const Elements& elements) {
  switch (Type{elements.dtype}) {
    case Type::i8:
      return map_as<F, std::int8_t, Result, N>(stream, elements);
    case Type::i16:
      return map_as<F, std::int16_t, Result, N>(stream, elements);
    case Type::i32:
      return map_as<F, std::int32_t, Result, N>(stream, elements);
    case Type::i64:
      return map_as<F, std::int64_t, Result, N>(stream, elements);
    default:
      return map_words<F, Result, N>(stream, elements);
  }
}

// For functions of numbers, without bool.
template <class F, int N> const char* map_integers(void* stream, const Elements& elements) {
  switch (Type{elements.dtype}) {
    case Type::i8:
      return map_as<F, std::int8_t, void, N>(stream, elements);
    case Type::i16:
      return map_as<F, std::int16_t, void, N>(stream, elements);
    case Type::i32:
      return map_as<F, std::int32_t, void, N>(stream, elements);
    case Type::i64:
      return map_as<F, std::int64_t, void, N>(stream, elements);
    case Type::u16:
      return map_as<F, std::uint16_t, void, N>(stream, elements);
    case Type::u32:
      return map_as<F, std::uint32_t, void, N>(stream, elements);
    case Type::u64:
      return map_as<F, std::uint64_t, void, N>(stream, elements);
    default:
      return map_as<F, std::uint8_t, void, N>(stream, elements);
  }
}

}  // namespace heddle::cuda_kernels
