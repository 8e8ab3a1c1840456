// Products without overflow and underflow of intermediate results.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/functor.h"

namespace heddle::functors {

// The number value times 2^exponent. Values are kept near 1, so that no product leaves the range.
struct Scaled {
  double value = 0;
  std::int64_t exponent = 0;

  HEDDLE_FUNCTOR void multiply(double factor) {
    exponent += exponent_out_of(value) + exponent_out_of(factor);
    value *= factor;
    exponent += exponent_out_of(value);
    if (value == 0 || !std::isfinite(value)) exponent = 0;
  }
  HEDDLE_FUNCTOR void add(double term) {
    const bool small = std::abs(value) < kLarge && std::abs(term) < kLarge;
    if (value == 0 || (exponent == 0 && small) || !std::isfinite(value) || !std::isfinite(term)) {
      *this = {value + term, 0};
    } else if (term != 0) {
      int of_value = 0, of_term = 0;
      const double a = std::frexp(value, &of_value), b = std::frexp(term, &of_term);
      const std::int64_t apart = exponent + of_value - of_term;
      if (apart > kNothing) return;
      *this = {apart < -kNothing ? b : std::ldexp(a, static_cast<int>(apart)) + b, of_term};
    }
  }
  HEDDLE_FUNCTOR double number() const { return times({1, 0}); }
  HEDDLE_FUNCTOR double times(const Scaled& other) const {
    if (value == 0 || other.value == 0) return value * other.value;  // NaN for 0 times infinity
    constexpr std::int64_t kMost = 5000;
    double a = value, b = other.value;
    const std::int64_t power = exponent + other.exponent + exponent_out_of(a) + exponent_out_of(b);
    return std::ldexp(a * b, static_cast<int>(std::clamp(power, -kMost, kMost)));
  }

 private:
  static constexpr double kLarge = 0x1p400;
  // If two terms are so many bits apart, the smaller one is left out.
  static constexpr std::int64_t kNothing = 100;

  // Divides a number that is far from 1 by a power of two, and returns the exponent.
  HEDDLE_FUNCTOR static int exponent_out_of(double& number) {
    const double magnitude = std::abs(number);
    if (magnitude == 0 || !std::isfinite(magnitude) || (magnitude > 1 / kLarge && magnitude < kLarge))
      return 0;
    int shift = 0;
    number = std::frexp(number, &shift);
    return shift;
  }
};

}  // namespace heddle::functors
