// Distributions of counts from the random numbers of an element, for kernels of the CPU and of GPUs: C++17, as nvcc
// compiles it. Computed in f64.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/lgamma_functor.h"
#include "families/random/stream_functors.h"

namespace heddle::functors {
namespace {

// log(n!) minus Stirling's approximation (n + 1/2) log(n) - n + log(2 pi) / 2; for n = 0, where the
// approximation is infinite, it is 0. From n = 16 on it is computed by its series (Loader 2000, "Fast and
// accurate computation of binomial probabilities").
HEDDLE_FUNCTOR inline double stirling_error(double n) {
  if (n == 0) return 0;
  if (n < 16) {
    return log_gamma(n + 1) - (n + 0.5) * std::log(n) + n - std::log(2 * kPi) / 2;
  }
  const double z = 1 / (n * n);
  return (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680 - z / 1188)))) / n;
}

// x log(x / mean) + mean - x, by a series where x is near the mean and the terms cancel (Loader 2000).
HEDDLE_FUNCTOR inline double deviance(double x, double mean) {
  const double ratio = (x - mean) / (x + mean);
  if (!(std::abs(ratio) < 0.1)) return x == 0 ? mean : x * std::log(x / mean) + mean - x;
  double sum = (x - mean) * ratio, power = 2 * x * ratio;
  for (int odd = 3;; odd += 2) {
    power *= ratio * ratio;
    const double next = sum + power / odd;
    if (next == sum) return sum;
    sum = next;
  }
}

HEDDLE_FUNCTOR inline double log_root(double n) { return n == 0 ? 0 : std::log(n) / 2; }

// A Poisson variate for rate >= 10: Hoermann (1993), "The transformed rejection method for generating Poisson
// random variables".
template <class Stream> HEDDLE_FUNCTOR double large_poisson(Stream& stream, double rate) {
  const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double inverse = 1.1239 + 1.1328 / (b - 3.4), sure = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = stream.uniform() - 0.5, v = stream.positive(), us = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= sure) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    const double log_root_of_tau = k == 0 ? 0 : std::log(2 * kPi) / 2;
    const double log_probability = -deviance(k, rate) - stirling_error(k) - log_root(k) - log_root_of_tau;
    if (std::log(v * inverse / (a / (us * us) + b)) <= log_probability) return k;
  }
}

struct SamplePoisson {
  template <class Stream> HEDDLE_FUNCTOR static double of(Stream& stream, const double* p) {
    if (p[0] >= 10) return large_poisson(stream, p[0]);
    double count = 0;
    // Counts events with exponential times between them.
    for (double time = stream.exponential(); time < p[0]; time += stream.exponential()) ++count;
    return count;
  }
};

// A binomial variate for p <= 1/2 and n p >= 10: Hoermann (1993), "The generation of binomial random
// variates".
template <class Stream> HEDDLE_FUNCTOR double large_binomial(Stream& stream, double n, double p) {
  const double deviation = std::sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * deviation;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p, sure = 0.92 - 4.2 / b,
               alpha = (2.83 + 5.1 / b) * deviation;
  // The logarithm of the probability of k, without the terms that all k share.
  const auto log_share = [=](double k) {
    const double rest = n - k;
    return -deviance(k, n * p) - deviance(rest, n * (1 - p)) - stirling_error(k) - stirling_error(rest) -
           log_root(k) - log_root(rest) - (k == 0 || rest == 0 ? 0 : std::log(2 * kPi) / 2);
  };
  const double at_mode = log_share(std::floor((n + 1) * p));
  for (;;) {
    const double u = stream.uniform() - 0.5, v = stream.positive(), us = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / us + b) * u + n * p + 0.5);
    if (k < 0 || k > n) continue;
    if (us >= 0.07 && v <= sure) return k;
    if (std::log(v * alpha / (a / (us * us) + b)) <= log_share(k) - at_mode) return k;
  }
}

struct SampleBinomial {
  template <class Stream> HEDDLE_FUNCTOR static double of(Stream& stream, const double* parameters) {
    const double n = parameters[0], p = std::min(parameters[1], 1 - parameters[1]);
    double successes = 0;
    if (n * p >= 10) {
      successes = large_binomial(stream, n, p);
    } else if (p > 0) {
      // The numbers of trials between successes have a geometric distribution.
      const double scale = -1 / std::log1p(-p);
      for (double trial = 0;; ++successes) {
        trial += std::floor(stream.exponential() * scale) + 1;
        if (!(trial <= n)) break;  // trial may be NaN after an infinite distance
      }
    }
    return parameters[1] > 0.5 ? n - successes : successes;
  }
};

}  // namespace
}  // namespace heddle::functors
