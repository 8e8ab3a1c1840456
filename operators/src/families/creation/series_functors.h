// Numbers of linspace and logspace, for the CPU and for GPUs: C++17, as nvcc compiles it.
#pragma once

#include <cmath>
#include <limits>

#include "core/functor.h"

namespace heddle {

// Computes number i of linspace. If the difference of start and stop overflows, it uses a weighted sum
// instead.
struct Steps {
  Steps(double first, double last, std::int64_t num, bool endpoint)
      : start(first), stop(last), count(num - endpoint), step((last - first) / static_cast<double>(count)) {}
  HEDDLE_FUNCTOR double operator()(std::int64_t i) const {
    if (i == 0 || start == stop) return start;
    if (i == count) return stop;
    const auto at = static_cast<double>(i), number = static_cast<double>(count);
    if (std::fabs(step) > std::numeric_limits<double>::max())
      return start * (1 - at / number) + stop * (at / number);
    // If the step is so small that it was rounded to 0, the fraction is computed first, as NumPy does.
    return (step == 0 ? at / number * (stop - start) : at * step) + start;
  }
  double start, stop;
  std::int64_t count;  // number of steps up to stop
  double step;
};

// A number for each of the steps: the same, rounded down, or as the exponent of the base.
struct Series {
  enum class Kind : unsigned char { same, floor, power };
  Steps steps;
  Kind kind = Kind::same;
  double base = 0;
  HEDDLE_FUNCTOR double operator()(std::int64_t i) const {
    const double value = steps(i);
    return kind == Kind::same ? value : kind == Kind::floor ? std::floor(value) : std::pow(base, value);
  }
};

}  // namespace heddle
