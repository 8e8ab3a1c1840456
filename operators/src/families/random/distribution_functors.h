// Continuous distributions from the random numbers of an element, for kernels of the CPU and of GPUs: C++17, as nvcc
// compiles it. Computed in f64.
#pragma once

#include <algorithm>
#include <cmath>

#include "families/random/stream_functors.h"

namespace heddle::functors {
namespace {

// log(1 + t) - t + t^2 / 2 - t^3 / 3.
HEDDLE_FUNCTOR inline double log1p_rest(double t) {
  if (std::abs(t) > 0.1) return std::log1p(t) - t * (1 - t * (0.5 - t / 3));
  double sum = 0, power = -t * t * t;
  for (int n = 4;; ++n) {
    power *= n == 4 ? t : -t;
    const double next = sum + power / n;
    if (next == sum) return sum;
    sum = next;
  }
}

// A gamma variate for a concentration of at least 1, by the method of Marsaglia and Tsang (2000).
template <class Stream> HEDDLE_FUNCTOR double large_gamma(Stream& stream, double concentration) {
  const double d = concentration - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = stream.normal(), step = c * x, root = 1 + step;
    if (root <= 0) continue;
    // x^2 / 2 + d - d v + d log(v) for v = root^3, computed without its terms, which are as large as d and
    // cancel.
    if (std::log(stream.positive()) < d * (3 * log1p_rest(step))) return d * (root * root * root);
  }
}

// The logarithm of a gamma variate: it does not underflow for a small concentration.
template <class Stream> HEDDLE_FUNCTOR double log_gamma(Stream& stream, double concentration) {
  if (concentration >= 1) return std::log(large_gamma(stream, concentration));
  const double larger = std::log(large_gamma(stream, concentration + 1));
  return larger - stream.exponential() / concentration;
}

struct SampleExponential {
  template <class Stream> HEDDLE_FUNCTOR static double of(Stream& stream, const double* p) {
    return stream.exponential() * p[0];
  }
};

struct SampleGamma {
  template <class Stream> HEDDLE_FUNCTOR static double of(Stream& stream, const double* p) {
    return (p[0] >= 1 ? large_gamma(stream, p[0]) : std::exp(log_gamma(stream, p[0]))) * p[1];
  }
};

struct SampleBeta {
  template <class Stream> HEDDLE_FUNCTOR static double of(Stream& stream, const double* p) {
    if (p[0] >= 1 && p[1] >= 1) {
      const double a = large_gamma(stream, p[0]), b = large_gamma(stream, p[1]);
      return 1 / (1 + b / a);
    }
    const double a = log_gamma(stream, p[0]), b = log_gamma(stream, p[1]);
    return 1 / (1 + std::exp(b - a));
  }
};

// A standard normal variate between low and high, where low > 0 or the interval contains 0: by uniform
// proposals for a narrow interval, by exponential ones in the tail (Robert 1995), else by normal ones.
template <class Stream> HEDDLE_FUNCTOR double standard_between(Stream& stream, double low, double high) {
  if (low <= 0 && high - low > 2.5) {
    for (;;) {
      const double x = stream.normal();
      if (x >= low && x <= high) return x;
    }
  }
  const double near = std::max(low, 0.0), rate = (low + std::sqrt(low * low + 4)) / 2;
  if (low <= 0 || (high - low) * rate < 1) {
    for (;;) {
      const double x = low + (high - low) * stream.uniform();
      if (std::log(stream.positive()) <= (near * near - x * x) / 2) return x;
    }
  }
  for (;;) {
    const double x = low + stream.exponential() / rate, apart = x - rate;
    if (x <= high && std::log(stream.positive()) <= -apart * apart / 2) return x;
  }
}

// A number between 0 and `width`, with a density that falls exponentially at `rate`.
template <class Stream> HEDDLE_FUNCTOR double falling(Stream& stream, double rate, double width) {
  return -std::log1p(stream.uniform() * std::expm1(-rate * width)) / rate;
}

// Far from the mean, the distance from the nearer bound is exponentially distributed, up to an error of 1 /
// low^2.
struct SampleTruncatedNormal {
  template <class Stream> HEDDLE_FUNCTOR static double of(Stream& stream, const double* p) {
    constexpr double kFar = 1e8;
    const double mean = p[0], deviation = p[1], low = (p[2] - mean) / deviation,
                 high = (p[3] - mean) / deviation;
    if (low > kFar) return std::min(p[2] + falling(stream, low / deviation, p[3] - p[2]), p[3]);
    if (high < -kFar) return std::max(p[3] - falling(stream, -high / deviation, p[3] - p[2]), p[2]);
    const bool mirrored = low + high < 0;
    const double x = mirrored ? -standard_between(stream, -high, -low) : standard_between(stream, low, high);
    return std::clamp(mean + deviation * x, p[2], p[3]);
  }
};

}  // namespace
}  // namespace heddle::functors
