// Keys: the elements of every dtype as unsigned integers of the same order.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include <heddle/dtype.h>

namespace heddle::cpu_kernels {

template <class T>
using BitsOf =
    std::conditional_t<sizeof(T) == 1, std::uint8_t,
                       std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                          std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

// The bits of infinity; 0 for types that have none.
template <class T> inline constexpr BitsOf<T> kInfinityBits = 0;
template <> inline constexpr std::uint32_t kInfinityBits<float> = 0x7f800000;
template <> inline constexpr std::uint64_t kInfinityBits<double> = 0x7ff0000000000000;
template <> inline constexpr std::uint16_t kInfinityBits<Float16> = 0x7c00;
template <> inline constexpr std::uint16_t kInfinityBits<BFloat16> = 0x7f80;

template <class T> inline constexpr bool kHasNaN = kInfinityBits<T> != 0;
template <class T>
inline constexpr auto kSignBit = static_cast<BitsOf<T>>(BitsOf<T>{1} << (8 * sizeof(T) - 1));

// A key that distinguishes -0 from 0: -0 is below 0. A NaN loses its sign and is above infinity.
template <class T> BitsOf<T> exact_key(T value) {
  using Bits = BitsOf<T>;
  auto bits = std::bit_cast<Bits>(value);
  if constexpr (kHasNaN<T>) {
    const auto magnitude = static_cast<Bits>(bits & static_cast<Bits>(~kSignBit<T>));
    if (magnitude > kInfinityBits<T>) bits = magnitude;
    const auto flip = static_cast<Bits>(bits & kSignBit<T> ? ~Bits{0} : kSignBit<T>);
    return static_cast<Bits>(bits ^ flip);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<Bits>(bits ^ kSignBit<T>);
  } else {
    return bits;
  }
}

template <class T> T value_of_key(BitsOf<T> key) {
  using Bits = BitsOf<T>;
  if constexpr (kHasNaN<T>) {
    const auto flip = static_cast<Bits>(key & kSignBit<T> ? kSignBit<T> : ~Bits{0});
    return std::bit_cast<T>(static_cast<Bits>(key ^ flip));
  } else if constexpr (std::is_signed_v<T>) {
    return std::bit_cast<T>(static_cast<Bits>(key ^ kSignBit<T>));
  } else {
    return std::bit_cast<T>(key);
  }
}

// key_of() is equal for -0 and 0, and for all NaNs.
template <class T> inline constexpr auto kNaNKey = static_cast<BitsOf<T>>(~BitsOf<T>{0});
template <class T> BitsOf<T> key_of(T value) {
  if constexpr (kHasNaN<T>) {
    using Bits = BitsOf<T>;
    const auto bits = std::bit_cast<Bits>(value);
    const auto magnitude = static_cast<Bits>(bits & static_cast<Bits>(~kSignBit<T>));
    if (magnitude > kInfinityBits<T>) return kNaNKey<T>;
    if (magnitude == 0) return kSignBit<T>;
  }
  return exact_key(value);
}

}  // namespace heddle::cpu_kernels
