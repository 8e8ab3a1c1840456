// Elements of arrays in kernels: their types, and conversions that give the CPU's bits (heddle/half.h, dtype/convert.h).
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "gpu/half.h"

namespace heddle::on_gpu {

// Has DType's numbers.
enum class Type : unsigned char { f32, f64, i32, i64, u8, boolean, f16, bf16, i8, i16, u16, u32, u64 };

constexpr int size_of(Type type) {
  switch (type) {
    case Type::f64:
    case Type::i64:
    case Type::u64:
      return 8;
    case Type::f32:
    case Type::i32:
    case Type::u32:
      return 4;
    case Type::f16:
    case Type::bf16:
    case Type::i16:
    case Type::u16:
      return 2;
    default:
      return 1;
  }
}

template <class To, class From> HEDDLE_DEVICE inline To saturate(From x) {
  constexpr From below = static_cast<From>(std::numeric_limits<To>::min());
  constexpr From above = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * From{2};
  constexpr To least = std::numeric_limits<To>::min(), most = std::numeric_limits<To>::max();
  if (x != x) return To{0};
  if (x >= above) return most;
  return x > below ? static_cast<To>(x) : least;
}

// Converts one of the types that elements are loaded as: float, double, long long, unsigned long long.
template <class To, class From> HEDDLE_DEVICE inline To convert(From x) {
  if constexpr (std::is_same_v<To, F16> || std::is_same_v<To, BF16>)
    return narrow(odd_float(x), To{});
  else if constexpr (std::is_same_v<To, bool>)
    return x != From{0};
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>)
    return saturate<To>(x);
  else
    return static_cast<To>(x);
}

// Element `at`, of a type that As holds exactly. Memory that was not written may have any byte as a bool.
template <class As> HEDDLE_DEVICE inline As load(const void* from, long long at, Type type);
template <> HEDDLE_DEVICE inline float load<float>(const void* from, long long at, Type type) {
  if (type == Type::f16) return widen(static_cast<const F16*>(from)[at]);
  if (type == Type::bf16) return widen(static_cast<const BF16*>(from)[at]);
  return static_cast<const float*>(from)[at];
}
template <> HEDDLE_DEVICE inline double load<double>(const void* from, long long at, Type) {
  return static_cast<const double*>(from)[at];
}
template <> HEDDLE_DEVICE inline long long load<long long>(const void* from, long long at, Type type) {
  if (type == Type::i8) return static_cast<const std::int8_t*>(from)[at];
  if (type == Type::i16) return static_cast<const std::int16_t*>(from)[at];
  if (type == Type::i32) return static_cast<const std::int32_t*>(from)[at];
  return static_cast<const std::int64_t*>(from)[at];
}
template <>
HEDDLE_DEVICE inline unsigned long long load<unsigned long long>(const void* from, long long at, Type type) {
  if (type == Type::boolean) return static_cast<const std::uint8_t*>(from)[at] != 0;
  if (type == Type::u8) return static_cast<const std::uint8_t*>(from)[at];
  if (type == Type::u16) return static_cast<const std::uint16_t*>(from)[at];
  if (type == Type::u32) return static_cast<const std::uint32_t*>(from)[at];
  return static_cast<const std::uint64_t*>(from)[at];
}

// to[at] = value, converted.
template <class T> HEDDLE_DEVICE inline void store(void* to, long long at, Type type, T value) {
  switch (type) {
    case Type::f32:
      static_cast<float*>(to)[at] = convert<float>(value);
      return;
    case Type::f64:
      static_cast<double*>(to)[at] = convert<double>(value);
      return;
    case Type::f16:
      static_cast<F16*>(to)[at] = convert<F16>(value);
      return;
    case Type::bf16:
      static_cast<BF16*>(to)[at] = convert<BF16>(value);
      return;
    case Type::boolean:
      static_cast<bool*>(to)[at] = convert<bool>(value);
      return;
    case Type::i8:
      static_cast<std::int8_t*>(to)[at] = convert<std::int8_t>(value);
      return;
    case Type::i16:
      static_cast<std::int16_t*>(to)[at] = convert<std::int16_t>(value);
      return;
    case Type::i32:
      static_cast<std::int32_t*>(to)[at] = convert<std::int32_t>(value);
      return;
    case Type::i64:
      static_cast<std::int64_t*>(to)[at] = convert<std::int64_t>(value);
      return;
    case Type::u8:
      static_cast<std::uint8_t*>(to)[at] = convert<std::uint8_t>(value);
      return;
    case Type::u16:
      static_cast<std::uint16_t*>(to)[at] = convert<std::uint16_t>(value);
      return;
    case Type::u32:
      static_cast<std::uint32_t*>(to)[at] = convert<std::uint32_t>(value);
      return;
    case Type::u64:
      static_cast<std::uint64_t*>(to)[at] = convert<std::uint64_t>(value);
      return;
  }
}

}  // namespace heddle::on_gpu
