// Conversions of f16 and bf16 in kernels, which give the CPU's bits (heddle/half.h).
#pragma once

#include <cstdint>
#include <cstring>

#include "gpu/kernel.h"

namespace heddle::on_gpu {

template <class To, class From> HEDDLE_DEVICE inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "a value is read as one of its size");
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

struct F16 {
  std::uint16_t bits;
};
struct BF16 {
  std::uint16_t bits;
};

HEDDLE_DEVICE inline float widen(F16 half) {
  const std::uint32_t sign = (half.bits & 0x8000u) << 16, size = half.bits & 0x7fffu;
  std::uint32_t result = (size << 13) + (112u << 23);
  if (size < 0x400) result = bits_as<std::uint32_t>(static_cast<float>(static_cast<int>(size)) * 0x1p-24f);
  if (size >= 0x7c00) result = (size << 13) + (224u << 23);
  if (size > 0x7c00) result |= 0x400000;
  return bits_as<float>(sign | result);
}
HEDDLE_DEVICE inline float widen(BF16 half) {
  const std::uint32_t wide = std::uint32_t{half.bits} << 16;
  return bits_as<float>((wide & 0x7fffffff) > 0x7f800000 ? wide | 0x400000 : wide);
}
HEDDLE_DEVICE inline F16 narrow(float value, F16) {
  const std::uint32_t bits = bits_as<std::uint32_t>(value), sign = bits >> 16 & 0x8000,
                      size = bits & 0x7fffffff;
  std::uint32_t result = (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13;
  if (size < 0x38800000) result = bits_as<std::uint32_t>(bits_as<float>(size) + 0.5f) - 0x3f000000;
  if (size >= 0x47800000) result = 0x7c00;
  if (size > 0x7f800000) result = 0x7e00 | (size >> 13 & 0x3ff);
  return {static_cast<std::uint16_t>(sign | result)};
}
HEDDLE_DEVICE inline BF16 narrow(float value, BF16) {
  const std::uint32_t bits = bits_as<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, nan = bits >> 16 | 0x40;
  return {static_cast<std::uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded)};
}

// Rounds to odd, so that rounding to 16 bits afterwards equals rounding once.
HEDDLE_DEVICE inline float odd_float(double value) {
  const float near = static_cast<float>(value);
  const double back = near;
  if (back == value || value != value) return near;
  const bool beyond = value < 0 ? back < value : back > value;
  return bits_as<float>((bits_as<std::uint32_t>(near) - beyond) | 1);
}
HEDDLE_DEVICE inline float odd_float(long long value) {
  constexpr long long kExact = 1ll << 53, kLow = 0x7ff;
  const bool cut = value <= -kExact || value >= kExact;
  return odd_float(static_cast<double>(cut && (value & kLow) ? (value & ~kLow) | (kLow + 1) : value));
}
HEDDLE_DEVICE inline float odd_float(unsigned long long value) {
  if (value >> 63 == 0) return odd_float(static_cast<long long>(value));
  return 2 * odd_float(static_cast<long long>(value >> 1 | (value & 1)));
}
HEDDLE_DEVICE inline float odd_float(float value) { return value; }

}  // namespace heddle::on_gpu
