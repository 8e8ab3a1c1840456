// Relus by the bits of numbers: loops without branches, which the compiler makes vector code of, also for 16-bit types.
#pragma once

#include <cstdint>
#include <type_traits>

#include <heddle/half.h>

namespace heddle::cpu_kernels {

// The bits of a number as a signed integer. Numbers from -0 to -inf have the bits from the least integer to kNegativeInfinity; NaN has
// others.
template <class T>
using SignedBits = std::conditional_t<sizeof(T) == 2, std::int16_t,
                                      std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>>;
template <class T>
inline constexpr SignedBits<T> kNegativeInfinity =
    std::is_same_v<T, Float16>    ? static_cast<SignedBits<T>>(std::uint16_t{0xfc00})
    : std::is_same_v<T, BFloat16> ? static_cast<SignedBits<T>>(std::uint16_t{0xff80})
    : sizeof(T) == 4              ? static_cast<SignedBits<T>>(std::uint32_t{0xff800000})
                                  : static_cast<SignedBits<T>>(std::uint64_t{0xfff0000000000000});

// to = 0 where y <= 0, else g, also where y is NaN: the gradient through a relu that has given y.
template <class T> void relu_gradient(const T* g, const T* y, std::int64_t count, T* to) {
  typedef SignedBits<T> Bits __attribute__((may_alias));
  const auto* const of_g = reinterpret_cast<const Bits*>(g);
  const auto* const of_y = reinterpret_cast<const Bits*>(y);
  auto* const result = reinterpret_cast<Bits*>(to);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i)
    result[i] = (of_y[i] == 0) | (of_y[i] <= kNegativeInfinity<T>) ? Bits{0} : of_g[i];
}

// 0 in place of what is below 0; NaN stays.
template <class T> void relu_in_place(T* y, std::int64_t count) {
  typedef SignedBits<T> Bits __attribute__((may_alias));
  auto* const bits = reinterpret_cast<Bits*>(y);
  for (std::int64_t i = 0; i < count; ++i) bits[i] = bits[i] <= kNegativeInfinity<T> ? Bits{0} : bits[i];
}

}  // namespace heddle::cpu_kernels
