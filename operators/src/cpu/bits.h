// For kernels that only move elements and need the size of the dtype, not the dtype.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <heddle/elementwise.h>

namespace heddle::cpu_kernels {

// Calls fn.template operator()<Bits>() with the unsigned integer of an element's size.
template <class F> void visit_bits(DType dtype, F&& fn) {
  switch (size_of(dtype)) {
    case 1:
      return fn.template operator()<std::uint8_t>();
    case 2:
      return fn.template operator()<std::uint16_t>();
    case 4:
      return fn.template operator()<std::uint32_t>();
    default:
      return fn.template operator()<std::uint64_t>();
  }
}

// The bits of an element with the value of a number.
template <class Bits> Bits bits_of(Scalar number, DType dtype) {
  Bits bits{};
  visit_dtype(dtype, [&]<class T>() {
    const T value = number.as<T>();
    std::memcpy(&bits, &value, std::min(sizeof bits, sizeof value));
  });
  return bits;
}

}  // namespace heddle::cpu_kernels
