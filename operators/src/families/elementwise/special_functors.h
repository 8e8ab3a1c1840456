// Function objects of reciprocals and of the gamma function, for kernels of the CPU and of GPUs: C++17, as nvcc compiles it. Names
// have internal linkage, as in the files of the CPU's kernels, which are compiled for several kinds of CPUs.
#pragma once

#include <cmath>
#include <limits>

#include "core/functor.h"
#include "core/lgamma_functor.h"

namespace heddle::functors {
namespace {

struct Rsqrt {
  template <class T> HEDDLE_FUNCTOR T operator()(T x) const { return T{1} / std::sqrt(x); }
};
struct Reciprocal {
  template <class T> HEDDLE_FUNCTOR T operator()(T x) const { return T{1} / x; }
};

struct Lgamma {
  template <class T> HEDDLE_FUNCTOR T operator()(T x) const {
    return static_cast<T>(log_gamma(static_cast<double>(x)));
  }
};

constexpr double kPi = 3.14159265358979323846;

// The distance from the nearest integer, exactly: x - floor(x) loses the digits of a small negative x.
HEDDLE_FUNCTOR inline double from_nearest(double x) { return x - std::nearbyint(x); }

// By the asymptotic series of Abramowitz and Stegun, 6.3.18, from 10 on; below, by
// digamma(x) = digamma(x + 1) - 1 / x; left of 1/2, by the reflection formula, 6.3.7.
HEDDLE_FUNCTOR inline double digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  double reflected = 0;
  if (x < 0.5) {
    if (x == std::floor(x)) return std::numeric_limits<double>::quiet_NaN();
    reflected = -kPi / std::tan(kPi * from_nearest(x));
    x = 1 - x;
  }
  double below = 0;
  for (; x < 10; ++x) below += 1 / x;
  if (std::isinf(x)) return x;
  const double z = 1 / (x * x);
  const double series =
      z *
      (1.0 / 12 -
       z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
  return reflected - below + std::log(x) - 0.5 / x - series;
}

// The derivative of digamma, right of 1/2 and everywhere: Abramowitz and Stegun, 6.4.12, 6.4.6 and 6.4.7.
HEDDLE_FUNCTOR inline double right_trigamma(double x) {
  double below = 0;
  for (; x < 10; ++x) below += 1 / (x * x);
  const double z = 1 / (x * x);
  const double series =
      z *
      (1.0 / 6 -
       z * (1.0 / 30 - z * (1.0 / 42 - z * (1.0 / 30 - z * (5.0 / 66 - z * (691.0 / 2730 - z * 7.0 / 6))))));
  return below + 1 / x + z / 2 + series / x;
}
HEDDLE_FUNCTOR inline double trigamma(double x) {
  if (!(x < 0.5)) return right_trigamma(x);
  if (x == std::floor(x)) return std::numeric_limits<double>::infinity();
  const double root = kPi / std::sin(kPi * from_nearest(x));
  return root * root - right_trigamma(1 - x);
}

// The derivative of trigamma: Abramowitz and Stegun, 6.4.11 and the derivative of 6.4.7.
HEDDLE_FUNCTOR inline double right_tetragamma(double x) {
  double below = 0;
  for (; x < 12; ++x) below -= 2 / (x * x * x);
  const double z = 1 / (x * x);
  const double series =
      z * (0.5 - z * (1.0 / 6 - z * (1.0 / 6 - z * (0.3 - z * (5.0 / 6 - z * (691.0 / 210 - z * 17.5))))));
  return below - z - z / x - z * series;
}
HEDDLE_FUNCTOR inline double tetragamma(double x) {
  if (!(x < 0.5)) return right_tetragamma(x);
  if (x == std::floor(x)) return std::numeric_limits<double>::quiet_NaN();
  const double angle = kPi * from_nearest(x), root = kPi / std::sin(angle);
  return right_tetragamma(1 - x) - 2 * std::cos(angle) * root * root * root;
}

struct Digamma {
  template <class T> HEDDLE_FUNCTOR T operator()(T x) const {
    return static_cast<T>(digamma(static_cast<double>(x)));
  }
};
struct Trigamma {
  template <class T> HEDDLE_FUNCTOR T operator()(T x) const {
    return static_cast<T>(trigamma(static_cast<double>(x)));
  }
};
struct Tetragamma {
  template <class T> HEDDLE_FUNCTOR T operator()(T x) const {
    return static_cast<T>(tetragamma(static_cast<double>(x)));
  }
};

}  // namespace
}  // namespace heddle::functors
