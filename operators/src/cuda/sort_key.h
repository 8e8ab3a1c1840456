// Keys of elements: unsigned integers of the order of sort(), as on the CPU. NaN is above all numbers, both zeros are equal.
#pragma once

#include "gpu/elements.h"

namespace heddle::cuda_kernels {

// The bits of an element of 1, 2, 4 or 8 bytes.
HEDDLE_DEVICE inline unsigned long long load_bits(const void* from, long long at, int size) {
  if (size == 1) return static_cast<const std::uint8_t*>(from)[at];
  if (size == 2) return static_cast<const std::uint16_t*>(from)[at];
  if (size == 4) return static_cast<const std::uint32_t*>(from)[at];
  return static_cast<const std::uint64_t*>(from)[at];
}
HEDDLE_DEVICE inline void store_bits(void* to, long long at, int size, unsigned long long bits) {
  if (size == 1) static_cast<std::uint8_t*>(to)[at] = static_cast<std::uint8_t>(bits);
  if (size == 2) static_cast<std::uint16_t*>(to)[at] = static_cast<std::uint16_t>(bits);
  if (size == 4) static_cast<std::uint32_t*>(to)[at] = static_cast<std::uint32_t>(bits);
  if (size == 8) static_cast<std::uint64_t*>(to)[at] = bits;
}

// How the bits of a dtype become keys.
struct KeyRule {
  int size;                                // bytes
  unsigned long long all, sign, infinity;  // infinity is 0 for dtypes that have none; sign for unsigned ones

  // The key of a NaN is `all`.
  HEDDLE_DEVICE unsigned long long key(unsigned long long bits) const {
    if (infinity != 0) {
      const unsigned long long magnitude = bits & ~sign;
      if (magnitude > infinity) return all;
      if (magnitude == 0) return sign;
      return bits & sign ? ~bits & all : bits | sign;
    }
    return bits ^ sign;
  }
  HEDDLE_DEVICE unsigned long long key_at(const void* from, long long at) const {
    return key(load_bits(from, at, size));
  }
};

inline KeyRule key_rule(on_gpu::Type type) {
  using on_gpu::Type;
  KeyRule rule{on_gpu::size_of(type), 0, 0, 0};
  const int bits = 8 * rule.size;
  rule.all = ~0ull >> (64 - bits);
  switch (type) {
    case Type::f32:
      rule.infinity = 0x7f800000;
      break;
    case Type::f64:
      rule.infinity = 0x7ff0000000000000;
      break;
    case Type::f16:
      rule.infinity = 0x7c00;
      break;
    case Type::bf16:
      rule.infinity = 0x7f80;
      break;
    default:
      break;
  }
  const bool has_sign =
      rule.infinity != 0 || type == Type::i8 || type == Type::i16 || type == Type::i32 || type == Type::i64;
  if (has_sign) rule.sign = 1ull << (bits - 1);
  return rule;
}

}  // namespace heddle::cuda_kernels
