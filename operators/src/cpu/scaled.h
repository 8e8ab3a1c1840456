// Products that neither overflow nor underflow on the way.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace heddle::cpu_kernels {

// value times 2^exponent.
struct Scaled {
  double value = 0;
  std::int64_t exponent = 0;

  void multiply(double factor) {
    value *= factor;
    const double magnitude = std::abs(value);
    if (magnitude == 0 || !std::isfinite(magnitude)) exponent = 0;
    if (magnitude == 0 || !std::isfinite(magnitude) || (magnitude > 0x1p-400 && magnitude < 0x1p400)) return;
    int shift = 0;
    value = std::frexp(value, &shift);
    exponent += shift;
  }
  void add(double term) {
    if (exponent == 0) {
      value += term;
    } else if (std::abs(exponent) < 600) {
      value += std::ldexp(term, static_cast<int>(-exponent));
    } else if (exponent < 0 && term != 0) {
      *this = {term, 0};  // next to which the value is nothing
    }
  }
  double number() const { return times({1, 0}); }
  double times(const Scaled& other) const {
    if (value == 0 || other.value == 0) return value * other.value;  // NaN of 0 times infinity
    constexpr std::int64_t kMost = 5000;
    return std::ldexp(value * other.value,
                      static_cast<int>(std::clamp(exponent + other.exponent, -kMost, kMost)));
  }
};

}  // namespace heddle::cpu_kernels
