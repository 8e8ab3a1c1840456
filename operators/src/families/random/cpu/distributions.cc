// Kernels of random distributions. Each element is computed in f64 by one function from its own random
// stream.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <heddle/number_text.h>

#include "core/kernel_table.h"
#include "cpu/loops/chunks.h"
#include "families/random/cpu/element_stream.h"

namespace heddle::cpu_kernels {

namespace {

constexpr std::int64_t kGrain = 1024;
using Sampler = double(ElementStream& stream, std::span<const double> parameters);

// log(n!) minus Stirling's approximation (n + 1/2) log(n) - n + log(2 pi) / 2; for n = 0, where the
// approximation is infinite, it is 0. From n = 16 on it is computed by its series (Loader 2000, "Fast and
// accurate computation of binomial probabilities").
double stirling_error(double n) {
  if (n == 0) return 0;
  if (n < 16) {
    int sign = 0;  // std::lgamma writes the sign to a global variable
    return ::lgamma_r(n + 1, &sign) - (n + 0.5) * std::log(n) + n - std::log(2 * std::numbers::pi) / 2;
  }
  const double z = 1 / (n * n);
  return (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680 - z / 1188)))) / n;
}

// x log(x / mean) + mean - x, by a series where x is near the mean and the terms cancel (Loader 2000).
double deviance(double x, double mean) {
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

double log_root(double n) { return n == 0 ? 0 : std::log(n) / 2; }

// log(1 + t) - t + t^2 / 2 - t^3 / 3.
double log1p_rest(double t) {
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
double large_gamma(ElementStream& stream, double concentration) {
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
double log_gamma(ElementStream& stream, double concentration) {
  if (concentration >= 1) return std::log(large_gamma(stream, concentration));
  const double larger = std::log(large_gamma(stream, concentration + 1));
  return larger - stream.exponential() / concentration;
}

double sample_exponential(ElementStream& stream, std::span<const double> p) {
  return stream.exponential() * p[0];
}

double sample_gamma(ElementStream& stream, std::span<const double> p) {
  return (p[0] >= 1 ? large_gamma(stream, p[0]) : std::exp(log_gamma(stream, p[0]))) * p[1];
}

double sample_beta(ElementStream& stream, std::span<const double> p) {
  if (p[0] >= 1 && p[1] >= 1) {
    const double a = large_gamma(stream, p[0]), b = large_gamma(stream, p[1]);
    return 1 / (1 + b / a);
  }
  const double a = log_gamma(stream, p[0]), b = log_gamma(stream, p[1]);
  return 1 / (1 + std::exp(b - a));
}

// A Poisson variate for rate >= 10: Hoermann (1993), "The transformed rejection method for generating Poisson
// random variables".
double large_poisson(ElementStream& stream, double rate) {
  const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double inverse = 1.1239 + 1.1328 / (b - 3.4), sure = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = stream.uniform() - 0.5, v = stream.positive(), us = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= sure) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    const double log_root_of_tau = k == 0 ? 0 : std::log(2 * std::numbers::pi) / 2;
    const double log_probability = -deviance(k, rate) - stirling_error(k) - log_root(k) - log_root_of_tau;
    if (std::log(v * inverse / (a / (us * us) + b)) <= log_probability) return k;
  }
}

double sample_poisson(ElementStream& stream, std::span<const double> p) {
  if (p[0] >= 10) return large_poisson(stream, p[0]);
  double count = 0;
  // Counts events with exponential times between them.
  for (double time = stream.exponential(); time < p[0]; time += stream.exponential()) ++count;
  return count;
}

// A binomial variate for p <= 1/2 and n p >= 10: Hoermann (1993), "The generation of binomial random
// variates".
double large_binomial(ElementStream& stream, double n, double p) {
  const double deviation = std::sqrt(n * p * (1 - p)), b = 1.15 + 2.53 * deviation;
  const double a = -0.0873 + 0.0248 * b + 0.01 * p, sure = 0.92 - 4.2 / b,
               alpha = (2.83 + 5.1 / b) * deviation;
  // The logarithm of the probability of k, without the terms that all k share.
  const auto log_share = [=](double k) {
    const double rest = n - k;
    return -deviance(k, n * p) - deviance(rest, n * (1 - p)) - stirling_error(k) - stirling_error(rest) -
           log_root(k) - log_root(rest) - (k == 0 || rest == 0 ? 0 : std::log(2 * std::numbers::pi) / 2);
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

double sample_binomial(ElementStream& stream, std::span<const double> parameters) {
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

// A standard normal variate between low and high, where low > 0 or the interval contains 0: by uniform
// proposals for a narrow interval, by exponential ones in the tail (Robert 1995), else by normal ones.
double standard_between(ElementStream& stream, double low, double high) {
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
double falling(ElementStream& stream, double rate, double width) {
  return -std::log1p(stream.uniform() * std::expm1(-rate * width)) / rate;
}

// Far from the mean, the distance from the nearer bound is exponentially distributed, up to an error of 1 /
// low^2.
double sample_truncated_normal(ElementStream& stream, std::span<const double> p) {
  constexpr double kFar = 1e8;
  const double mean = p[0], deviation = p[1], low = (p[2] - mean) / deviation,
               high = (p[3] - mean) / deviation;
  if (low > kFar) return std::min(p[2] + falling(stream, low / deviation, p[3] - p[2]), p[3]);
  if (high < -kFar) return std::max(p[3] - falling(stream, -high / deviation, p[3] - p[2]), p[2]);
  const bool mirrored = low + high < 0;
  const double x = mirrored ? -standard_between(stream, -high, -low) : standard_between(stream, low, high);
  return std::clamp(mean + deviation * x, p[2], p[3]);
}

void check(const DistributionCall& call, const DistributionParameter& parameter) {
  if (!parameter.value.is_array) return;
  const double* values = parameter.value.array.data<const double>();
  for (std::int64_t i = 0; i < call.y.size(); ++i) {
    if (fits(parameter.range, values[i])) continue;
    std::string position = std::to_string(i);
    if (call.y.ndim() != 1) {
      Dims at = call.y.shape();
      std::int64_t rest = i;
      for (int axis = at.size() - 1; axis >= 0; --axis) {
        at[axis] = rest % call.y.shape()[axis];
        rest /= call.y.shape()[axis];
      }
      position = at.to_string();
    }
    throw InvalidArgument(std::string(call.op) + ": " + parameter.name + " is " + number_text(values[i]) +
                          " at position " + position + ", out of its range");
  }
}

template <class T> T stored(double value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value != 0;
  } else if constexpr (std::is_integral_v<T>) {
    return ndarray_detail::saturate<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

void draw(Sampler* sampler, const DistributionCall& call) {
  constexpr std::size_t kMost = 4;
  for (const DistributionParameter& parameter : call.parameters) check(call, parameter);
  visit_dtype(call.y.dtype(), [&]<class T>() {
    T* y = call.y.data<T>();
    parallel_chunks(call.y.size(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      double values[kMost] = {};
      const double* arrays[kMost] = {};
      const std::size_t count = call.parameters.size();
      for (std::size_t k = 0; k < count; ++k) {
        const Operand& value = call.parameters[k].value;
        if (value.is_array)
          arrays[k] = value.array.data<const double>();
        else
          values[k] = value.scalar.real();
      }
      for (std::int64_t i = begin; i < end; ++i) {
        for (std::size_t k = 0; k < count; ++k) values[k] = arrays[k] ? arrays[k][i] : values[k];
        ElementStream stream(call.range, i);
        y[i] = stored<T>(sampler(stream, std::span(values, count)));
      }
    });
  });
}

template <Sampler* sampler> void distribution_kernel(const KernelContext&, const DistributionCall& call) {
  draw(sampler, call);
}

[[noreturn]] void refuse_row(const char* op, std::int64_t row, const std::string& what) {
  throw InvalidArgument(std::string(op) + ": row " + std::to_string(row) + " " + what);
}

// The Gumbel-max trick: selects the class with the largest sum of logit and Gumbel noise.
void categorical_kernel(const KernelContext&, const char* op, RandomBlocks range, const NDArray& x, bool,
                        const NDArray& y) {
  const std::int64_t rows = y.shape()[0], samples = y.shape()[1], n = x.shape()[1];
  const double* logits = x.data<const double>();
  for (std::int64_t row = 0; row < rows && samples > 0; ++row) {
    const double* line = logits + row * n;
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t c = 0; c < n; ++c) {
      if (std::isnan(line[c]) || line[c] > std::numeric_limits<double>::max())
        refuse_row(op, row, "has the logit " + number_text(line[c]));
      largest = std::max(largest, line[c]);
    }
    if (std::isinf(largest)) refuse_row(op, row, "has no logit above -infinity");
  }
  std::int64_t* indices = y.data<std::int64_t>();
  const std::int64_t grain = std::max<std::int64_t>(1, 4 * kGrain / std::max<std::int64_t>(1, n));
  parallel_chunks(rows * samples, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      ElementStream stream(range, i);
      const double* line = logits + i / samples * n;
      double best = -std::numeric_limits<double>::infinity();
      for (std::int64_t c = 0; c < n; ++c) {
        const double value = line[c] - std::log(stream.exponential());
        if (std::isinf(line[c]) || !(value > best)) continue;
        best = value;
        indices[i] = c;
      }
    }
  });
}

// Checks a row of weights and returns the number of those above 0.
std::int64_t check_weights(const char* op, std::int64_t row, const double* weights, std::int64_t n) {
  std::int64_t above = 0;
  double sum = 0;
  for (std::int64_t c = 0; c < n; ++c) {
    if (!(weights[c] >= 0) || std::isinf(weights[c]))
      refuse_row(op, row, "has the weight " + number_text(weights[c]));
    above += weights[c] > 0;
    sum += weights[c];
  }
  if (std::isinf(sum)) refuse_row(op, row, "has weights with an infinite sum");
  return above;
}

void draw_with_replacement(RandomBlocks range, const double* weights, std::int64_t n, std::int64_t row,
                           std::int64_t samples, std::int64_t* indices) {
  std::vector<double> sums(static_cast<std::size_t>(n));
  double total = 0;
  std::int64_t last = 0;
  for (std::int64_t c = 0; c < n; ++c) {
    total += weights[c];
    sums[static_cast<std::size_t>(c)] = total;
    if (weights[c] > 0) last = c;
  }
  for (std::int64_t i = 0; i < samples; ++i) {
    ElementStream stream(range, row * samples + i);
    const auto found = std::upper_bound(sums.begin(), sums.end(), stream.uniform() * total) - sums.begin();
    indices[i] = std::min<std::int64_t>(found, last);
  }
}

// Each weight is the rate of an exponential time; the entries with the earliest times are drawn.
void draw_without_replacement(RandomBlocks range, const double* weights, std::int64_t n, std::int64_t row,
                              std::int64_t samples, std::int64_t* indices) {
  ElementStream stream(range, row * samples);
  const double largest = *std::max_element(weights, weights + n);  // dividing by it keeps times finite
  std::vector<std::pair<double, std::int64_t>> times(static_cast<std::size_t>(n));
  for (std::int64_t c = 0; c < n; ++c) {
    const double time = stream.exponential();
    times[static_cast<std::size_t>(c)] = {
        weights[c] > 0 ? time / (weights[c] / largest) : std::numeric_limits<double>::infinity(), c};
  }
  std::partial_sort(times.begin(), times.begin() + samples, times.end());
  for (std::int64_t i = 0; i < samples; ++i) indices[i] = times[static_cast<std::size_t>(i)].second;
}

void multinomial_kernel(const KernelContext&, const char* op, RandomBlocks range, const NDArray& x,
                        bool replacement, const NDArray& y) {
  const std::int64_t rows = y.shape()[0], samples = y.shape()[1], n = x.shape()[1];
  if (samples == 0) return;
  const double* weights = x.data<const double>();
  std::int64_t* indices = y.data<std::int64_t>();
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t above = check_weights(op, row, weights + row * n, n),
                       wanted = replacement ? 1 : samples;
    if (above < wanted)
      refuse_row(
          op, row,
          "has " + std::to_string(above) + " weights above 0; wanted at least " + std::to_string(wanted));
  }
  const std::int64_t grain = std::max<std::int64_t>(1, 4 * kGrain / (n + samples));
  parallel_chunks(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      (replacement ? draw_with_replacement : draw_without_replacement)(range, weights + row * n, n, row,
                                                                       samples, indices + row * samples);
    }
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(distributions) {
  const auto add = [&](const char* op, DistributionKernel* kernel) {
    table.add<DistributionKernel>(op, DeviceKind::cpu, kernel);
  };
  add("exponential", distribution_kernel<sample_exponential>);
  add("gamma", distribution_kernel<sample_gamma>);
  add("beta", distribution_kernel<sample_beta>);
  add("poisson", distribution_kernel<sample_poisson>);
  add("binomial", distribution_kernel<sample_binomial>);
  add("truncated_normal", distribution_kernel<sample_truncated_normal>);
  table.add<IndexDrawKernel>("categorical", DeviceKind::cpu, categorical_kernel);
  table.add<IndexDrawKernel>("multinomial", DeviceKind::cpu, multinomial_kernel);
}

}  // namespace heddle::cpu_kernels
