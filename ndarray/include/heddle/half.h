// The 16-bit floating-point types f16 (IEEE binary16) and bf16 (the upper half of an f32). They are for storage: to
// compute, convert to f32 and back, once per operation. All conversions round to nearest even, keep inf and make NaNs
// quiet.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace heddle {

namespace ndarray_detail {

// Converts a floating number to an integer: truncates; gives the nearest end of the range for a number beyond it, and 0
// for NaN. To bool: whether it is not 0, which is true for NaN.
template <class To, class From> constexpr To saturate(From x) {
  if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else {
    constexpr auto below = static_cast<From>(std::numeric_limits<To>::min());
    // One more than the largest To. It is a power of two, which From represents exactly, unlike perhaps the
    // largest To.
    constexpr From above = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * From{2};
    if (x != x) return To{0};
    if (x >= above) return std::numeric_limits<To>::max();
    return x > below ? static_cast<To>(x) : std::numeric_limits<To>::min();
  }
}

// Rounds to odd: the last bit of the result is set if any bit was cut off. Rounding the result to 16 bits
// then equals rounding once.
inline float odd_float(double value) {
  const auto near = static_cast<float>(value);
  const auto back = static_cast<double>(near);
  if (back == value || value != value) return near;
  const bool beyond = value < 0 ? back < value : back > value;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(near) - beyond) | 1);
}
inline float odd_float(std::int64_t value) {
  // kLow masks the bits of an i64 that an f64 may not be able to hold. Up to kExact an f64 holds every
  // integer.
  constexpr std::int64_t kExact = std::int64_t{1} << 53, kLow = 0x7ff;
  const bool cut = value <= -kExact || value >= kExact;
  return odd_float(static_cast<double>(cut && (value & kLow) ? (value & ~kLow) | (kLow + 1) : value));
}
template <class T> float f32_for_half(T value) {
  if constexpr (std::is_same_v<T, float> || sizeof(T) <= 2)
    return static_cast<float>(value);
  else if constexpr (std::is_floating_point_v<T>)
    return odd_float(static_cast<double>(value));
  else if (std::is_signed_v<T> || value <= static_cast<T>(INT64_MAX))
    return odd_float(static_cast<std::int64_t>(value));
  else
    return 2 * odd_float(static_cast<std::int64_t>(value >> 1 | (value & 1)));
}

struct Ieee16 {
  static std::uint16_t narrow(float value);
  static float widen(std::uint16_t bits);
};
struct Brain16 {
  static std::uint16_t narrow(float value);
  static float widen(std::uint16_t bits);
};

}  // namespace ndarray_detail

// A 16-bit floating-point number of the given format. Conversions from and to numbers are explicit.
template <class Format> struct Half {
  std::uint16_t bits;

  Half() = default;
  template <class T>
  requires std::is_arithmetic_v<T>
  explicit Half(T value) : bits(Format::narrow(ndarray_detail::f32_for_half(value))) {}
  static Half from_bits(std::uint16_t bits) {
    Half made;
    made.bits = bits;
    return made;
  }
  template <class T>
  requires std::is_arithmetic_v<T>
  explicit operator T() const {
    if constexpr (std::is_integral_v<T>) {
      return ndarray_detail::saturate<T>(Format::widen(bits));
    } else {
      return static_cast<T>(Format::widen(bits));
    }
  }
  friend bool operator==(Half a, Half b) { return Format::widen(a.bits) == Format::widen(b.bits); }
};
using Float16 = Half<ndarray_detail::Ieee16>;
using BFloat16 = Half<ndarray_detail::Brain16>;

template <class T>
inline constexpr bool is_half_type = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>;

// Converts many elements, as fast as memory allows. `from` and `to` do not overlap.
void widen(const Float16* from, float* to, std::size_t count);
void widen(const BFloat16* from, float* to, std::size_t count);
void narrow(const float* from, Float16* to, std::size_t count);
void narrow(const float* from, BFloat16* to, std::size_t count);

// The conversions of both formats have no branches: all cases are computed and one is chosen, so that the compiler
// makes vector code of loops.
inline std::uint16_t ndarray_detail::Ieee16::narrow(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  // The exponent's bias changes from 127 to 15. A carry out of the fraction increments the exponent, up to inf.
  const std::uint32_t normal = (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13;
  // The last bit of a float near 0.5 has the value of the last bit of a subnormal f16, so adding 0.5 rounds
  // to that.
  const std::uint32_t small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3f000000;
  const std::uint32_t nan = 0x7e00 | (size >> 13 & 0x3ff);
  std::uint32_t result = size < 0x38800000 ? small : normal;
  result = size >= 0x47800000 ? 0x7c00 : result;
  result = size > 0x7f800000 ? nan : result;
  return static_cast<std::uint16_t>(sign | result);
}

inline float ndarray_detail::Ieee16::widen(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16, size = bits & 0x7fffu;
  const std::uint32_t normal = (size << 13) + (112u << 23), special = (size << 13) + (224u << 23);
  const auto small = std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<int>(size)) * 0x1p-24f);
  std::uint32_t result = size < 0x400 ? small : normal;
  result = size >= 0x7c00 ? special : result;
  result = size > 0x7c00 ? result | 0x400000 : result;
  return std::bit_cast<float>(sign | result);
}

inline std::uint16_t ndarray_detail::Brain16::narrow(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
  return static_cast<std::uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

inline float ndarray_detail::Brain16::widen(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  return std::bit_cast<float>((wide & 0x7fffffff) > 0x7f800000 ? wide | 0x400000 : wide);
}

}  // namespace heddle
