// Conversion of one element, defined for every value.
#pragma once

#include <cstdint>
#include <type_traits>

#include <heddle/half.h>

namespace heddle::ndarray_detail {

// The type as which a bool is read from an array: memory that was not written yet may hold any byte.
struct BoolByte {
  std::uint8_t bits;
};

// Floating to integer: truncates; a value beyond the range becomes its nearest end, NaN becomes 0. Integer to integer:
// keeps the low bits. To bool: value != 0.
template <class To, class From> inline To convert(From x) {
  if constexpr (std::is_same_v<From, BoolByte>) {
    return static_cast<To>(x.bits != 0);
  } else if constexpr (is_half_type<From>) {
    return convert<To>(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return saturate<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace heddle::ndarray_detail
