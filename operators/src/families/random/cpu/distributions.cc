// Kernels of random distributions. Each element is computed in f64 by one function from its own random
// stream.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <heddle/number_text.h>

#include "core/kernel_table.h"
#include "cpu/loops/chunks.h"
#include "families/random/count_functors.h"
#include "families/random/distribution_functors.h"
#include "families/random/kernels.h"

namespace heddle::cpu_kernels {

namespace {

constexpr std::int64_t kGrain = 1024;
using namespace functors;

void check(const DistributionCall& call, const DistributionParameter& parameter) {
  if (!parameter.value.is_array) return;
  const double* values = parameter.value.array.data<const double>();
  for (std::int64_t i = 0; i < call.y.size(); ++i) {
    if (!fits(parameter.range, values[i]))
      refuse_parameter(call.op, parameter.name, values[i], call.y.shape(), i);
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

template <class Sampler> void distribution_kernel(const KernelContext&, const DistributionCall& call) {
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
        ElementStream stream(call.range.seed, call.range.start, i);
        y[i] = stored<T>(Sampler::of(stream, values));
      }
    });
  });
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
        refuse_logits(op, row, line[c], false);
      largest = std::max(largest, line[c]);
    }
    if (std::isinf(largest)) refuse_logits(op, row, largest, true);
  }
  std::int64_t* indices = y.data<std::int64_t>();
  const std::int64_t grain = std::max<std::int64_t>(1, 4 * kGrain / std::max<std::int64_t>(1, n));
  parallel_chunks(rows * samples, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      ElementStream stream(range.seed, range.start, i);
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
      refuse_weights(op, row, WeightFault::weight, weights[c], 0);
    above += weights[c] > 0;
    sum += weights[c];
  }
  if (std::isinf(sum)) refuse_weights(op, row, WeightFault::sum, sum, 0);
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
    ElementStream stream(range.seed, range.start, row * samples + i);
    const auto found = std::upper_bound(sums.begin(), sums.end(), stream.uniform() * total) - sums.begin();
    indices[i] = std::min<std::int64_t>(found, last);
  }
}

// Each weight is the rate of an exponential time; the entries with the earliest times are drawn.
void draw_without_replacement(RandomBlocks range, const double* weights, std::int64_t n, std::int64_t row,
                              std::int64_t samples, std::int64_t* indices) {
  ElementStream stream(range.seed, range.start, row * samples);
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
    if (above < wanted) refuse_weights(op, row, WeightFault::few, static_cast<double>(above), wanted);
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
  add("exponential", distribution_kernel<SampleExponential>);
  add("gamma", distribution_kernel<SampleGamma>);
  add("beta", distribution_kernel<SampleBeta>);
  add("poisson", distribution_kernel<SamplePoisson>);
  add("binomial", distribution_kernel<SampleBinomial>);
  add("truncated_normal", distribution_kernel<SampleTruncatedNormal>);
  table.add<IndexDrawKernel>("categorical", DeviceKind::cpu, categorical_kernel);
  table.add<IndexDrawKernel>("multinomial", DeviceKind::cpu, multinomial_kernel);
}

}  // namespace heddle::cpu_kernels
