// Kernels of the normalisations. Sums are added in a fixed order, whatever the number of workers.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <heddle/parallel.h>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "families/norm/kernels.h"

namespace heddle::cpu_kernels {
namespace {

constexpr std::int64_t kGrain = 16384;  // elements per chunk
constexpr std::int64_t kColumns = 64;   // channels that are summed together where inner is 1

std::int64_t per_chunk(std::int64_t elements) {
  return std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, elements));
}

// term(0) + ... + term(n - 1): some hundred terms in each of several sums of type T, which vectors add, and these in f64.
template <class T, class Term> double sum_of(std::int64_t n, const Term& term) {
  constexpr std::int64_t kLanes = 128 / sizeof(T), kBlock = 64 * kLanes;
  double sum = 0;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t end = std::min(n, begin + kBlock);
    T lanes[kLanes] = {};
    std::int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes)
      for (std::int64_t k = 0; k < kLanes; ++k) lanes[k] += term(i + k);
    for (std::int64_t k = 0; i < end; ++i, ++k) lanes[k] += term(i);
    for (const T lane : lanes) sum += static_cast<double>(lane);
  }
  return sum;
}

// Memory of an array; null if the array is undefined.
template <class T> const T* read(const NDArray& array) {
  return array.defined() ? array.data<const T>() : nullptr;
}
template <class T> T* written(const NDArray& array) { return array.defined() ? array.data<T>() : nullptr; }

// Two sums for each channel: of a(at, statistic) and of b(at, statistic) over the elements of the channel. done(weight, a, b) is
// called once for each weight.
template <class T, class A, class B, class Done>
void channel_sums(const NormProblem& p, const A& a, const B& b, const Done& done) {
  if (p.inner == 1 && p.groups == 1) {
    parallel_for((p.channels + kColumns - 1) / kColumns, per_chunk(kColumns * p.rows),
                 [&](std::int64_t first, std::int64_t last) {
                   for (std::int64_t block = first; block < last; ++block) {
                     const std::int64_t begin = block * kColumns, n = std::min(kColumns, p.channels - begin);
                     double sums_a[kColumns] = {}, sums_b[kColumns] = {};
                     for (std::int64_t row = 0; row < p.rows; ++row)
                       for (std::int64_t k = 0; k < n; ++k) {
                         const std::int64_t at = row * p.channels + begin + k;
                         const std::int64_t statistic = p.of_channels ? begin + k : row;
                         sums_a[k] += static_cast<double>(a(at, statistic));
                         sums_b[k] += static_cast<double>(b(at, statistic));
                       }
                     for (std::int64_t k = 0; k < n; ++k) done(begin + k, sums_a[k], sums_b[k]);
                   }
                 });
    return;
  }
  const std::int64_t rows = p.groups == 0 ? 0 : p.rows / p.groups;
  parallel_for(p.weights(), per_chunk(rows * p.inner), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t weight = first; weight < last; ++weight) {
      double sum_a = 0, sum_b = 0;
      for (std::int64_t row = weight / p.channels; row < p.rows; row += p.groups) {
        const std::int64_t at = (row * p.channels + weight % p.channels) * p.inner;
        const std::int64_t statistic = p.of_channels ? weight : row;
        sum_a += sum_of<T>(p.inner, [&](std::int64_t i) { return a(at + i, statistic); });
        sum_b += sum_of<T>(p.inner, [&](std::int64_t i) { return b(at + i, statistic); });
      }
      done(weight, sum_a, sum_b);
    }
  });
}

// Calls body(row, channel, weight, offset) for each line of `inner` elements, or, if inner is 1, for each row with channel 0: the
// line is then the row.
template <class Body> void for_each_line(const NormProblem& p, const Body& body) {
  const bool rows = p.inner == 1;
  const std::int64_t lines = rows ? p.rows : p.rows * p.channels, length = rows ? p.channels : p.inner;
  parallel_for(lines, per_chunk(length), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t line = begin; line < end; ++line) {
      const std::int64_t row = rows ? line : line / p.channels, channel = rows ? 0 : line % p.channels;
      body(row, channel, (row % p.groups) * p.channels + channel, line * length);
    }
  });
}

// X: the type of x and y; T: that of all else, in which is computed.
template <class X, class T = ComputeType<X>> struct Forward {
  const NormProblem& p;
  const X* x;
  const T *weight, *bias;
  X* y;
  T *mean, *scale, *variance;

  void set(std::int64_t statistic, double m, double squares) const {
    mean[statistic] = static_cast<T>(m);
    scale[statistic] = static_cast<T>(1 / std::sqrt(squares + p.epsilon));
    if (variance) variance[statistic] = static_cast<T>(squares);
  }
  void row_statistics() const {
    const std::int64_t n = p.channels * p.inner;
    parallel_for(p.rows, per_chunk(n), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const X* const from = x + row * n;
        const auto count = static_cast<double>(n);
        const auto value = [from](std::int64_t i) { return static_cast<T>(from[i]); };
        const double m = p.centered ? sum_of<T>(n, value) / count : 0;
        const T middle = static_cast<T>(m);
        set(row, m, sum_of<T>(n, [&](std::int64_t i) {
                      const T d = value(i) - middle;
                      return d * d;
                    }) / count);
      }
    });
  }
  void channel_statistics() const {
    const auto count = static_cast<double>(p.rows * p.inner);
    const auto value = [&](std::int64_t at, std::int64_t) { return static_cast<T>(x[at]); };
    const auto nothing = [](std::int64_t, std::int64_t) { return T{0}; };
    channel_sums<T>(p, value, nothing, [&](std::int64_t channel, double sum, double) {
      mean[channel] = static_cast<T>(sum / count);
    });
    const auto square = [&](std::int64_t at, std::int64_t channel) {
      const T d = static_cast<T>(x[at]) - mean[channel];
      return d * d;
    };
    channel_sums<T>(p, square, nothing, [&](std::int64_t channel, double sum, double) {
      set(channel, static_cast<double>(mean[channel]), sum / count);
    });
  }
  T weight_at(std::int64_t i) const { return weight ? weight[i] : T{1}; }
  T bias_at(std::int64_t i) const { return bias ? bias[i] : T{0}; }

  void line(std::int64_t row, std::int64_t channel, std::int64_t at_weight, std::int64_t at) const {
    const X* const from = x + at;
    X* const to = y + at;
    const auto value = [from](std::int64_t i) { return static_cast<T>(from[i]); };
    if (p.inner != 1) {
      const std::int64_t statistic = p.of_channels ? channel : row;
      const T factor = scale[statistic] * weight_at(at_weight), middle = mean[statistic],
              shift = bias_at(at_weight);
      for (std::int64_t i = 0; i < p.inner; ++i) to[i] = static_cast<X>((value(i) - middle) * factor + shift);
    } else if (p.of_channels) {
      for (std::int64_t i = 0; i < p.channels; ++i)
        to[i] = static_cast<X>((value(i) - mean[i]) * (scale[i] * weight_at(i)) + bias_at(i));
    } else {
      const T factor = scale[row], middle = mean[row];
      for (std::int64_t i = 0; i < p.channels; ++i)
        to[i] =
            static_cast<X>((value(i) - middle) * factor * weight_at(at_weight + i) + bias_at(at_weight + i));
    }
  }
  void run() const {
    p.of_channels ? channel_statistics() : row_statistics();
    for_each_line(p, [this](auto... place) { line(place...); });
  }
};

// With z = (x - mean) scale and h = g weight: the gradient of x is scale (h - mean(h) - z mean(h z)), with the means over what the
// statistics are over; without the first one where the mean counts as 0.
template <class X, class T = ComputeType<X>> struct Backward {
  const NormProblem& p;
  const X *g, *x;
  const T *weight, *mean, *scale;
  X* x_grad;
  T *weight_grad, *bias_grad;

  T weight_at(std::int64_t i) const { return weight ? weight[i] : T{1}; }
  T normal(std::int64_t at, std::int64_t statistic) const {
    return (static_cast<T>(x[at]) - mean[statistic]) * scale[statistic];
  }

  // Sums over a row of h and of h z.
  void row_sums(std::int64_t row, double& h, double& hz) const {
    const T middle = mean[row], factor = scale[row];
    for (std::int64_t c = 0; c < (p.inner == 1 ? 1 : p.channels); ++c) {
      const std::int64_t length = p.inner == 1 ? p.channels : p.inner,
                         at = row * p.channels * p.inner + c * p.inner;
      const X *of_g = g + at, *of_x = x + at;
      const std::int64_t first = (row % p.groups) * p.channels + c;
      const auto value = [&](std::int64_t i) {
        return static_cast<T>(of_g[i]) * weight_at(p.inner == 1 ? first + i : first);
      };
      h += sum_of<T>(length, value);
      hz += sum_of<T>(
          length, [&](std::int64_t i) { return value(i) * ((static_cast<T>(of_x[i]) - middle) * factor); });
    }
  }
  void row_gradients() const {
    const std::int64_t n = p.channels * p.inner;
    parallel_for(p.rows, per_chunk(n), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        double h = 0, hz = 0;
        row_sums(row, h, hz);
        const auto count = static_cast<double>(n);
        const T mean_h = p.centered ? static_cast<T>(h / count) : T{0}, mean_hz = static_cast<T>(hz / count);
        const T factor = scale[row], middle = mean[row];
        const std::int64_t first = (row % p.groups) * p.channels;
        if (p.inner == 1) {
          const X *of_g = g + row * n, *of_x = x + row * n;
          X* const to = x_grad + row * n;
          for (std::int64_t i = 0; i < n; ++i)
            to[i] = static_cast<X>(factor * (static_cast<T>(of_g[i]) * weight_at(first + i) - mean_h -
                                             (static_cast<T>(of_x[i]) - middle) * factor * mean_hz));
          continue;
        }
        for (std::int64_t c = 0; c < p.channels; ++c) {
          const T w = weight_at(first + c);
          const std::int64_t at = row * n + c * p.inner;
          for (std::int64_t i = at; i < at + p.inner; ++i)
            x_grad[i] = static_cast<X>(factor * (static_cast<T>(g[i]) * w - mean_h -
                                                 (static_cast<T>(x[i]) - middle) * factor * mean_hz));
        }
      }
    });
  }
  // `h` and `hz`: the means over each channel of g and of g z.
  void channel_gradients(const std::vector<T>& h, const std::vector<T>& hz) const {
    const T *const of_h = h.data(), *const of_hz = hz.data();
    for_each_line(p, [&](std::int64_t, std::int64_t channel, std::int64_t, std::int64_t at) {
      const X *of_g = g + at, *of_x = x + at;
      X* const to = x_grad + at;
      if (p.inner == 1) {
        for (std::int64_t c = 0; c < p.channels; ++c)
          to[c] = static_cast<X>(scale[c] * weight_at(c) *
                                 (static_cast<T>(of_g[c]) - of_h[c] -
                                  (static_cast<T>(of_x[c]) - mean[c]) * scale[c] * of_hz[c]));
        return;
      }
      const T w = scale[channel] * weight_at(channel), middle = mean[channel];
      const T subtract = of_h[channel], slope = of_hz[channel] * scale[channel];
      for (std::int64_t i = 0; i < p.inner; ++i)
        to[i] = static_cast<X>(
            w * (static_cast<T>(of_g[i]) - subtract - (static_cast<T>(of_x[i]) - middle) * slope));
    });
  }
  void run() const {
    const auto size = static_cast<std::size_t>(p.weights());
    std::vector<T> h(p.of_channels ? size : 0), hz(p.of_channels ? size : 0);
    const auto count = static_cast<double>(p.rows * p.inner);
    if (p.of_channels || weight_grad || bias_grad) {
      const auto value = [&](std::int64_t at, std::int64_t) { return static_cast<T>(g[at]); };
      const auto product = [&](std::int64_t at, std::int64_t statistic) {
        return static_cast<T>(g[at]) * normal(at, statistic);
      };
      channel_sums<T>(p, value, product, [&](std::int64_t i, double sum, double sum_of_products) {
        if (bias_grad) bias_grad[i] = static_cast<T>(sum);
        if (weight_grad) weight_grad[i] = static_cast<T>(sum_of_products);
        if (!p.of_channels) return;
        h[static_cast<std::size_t>(i)] = static_cast<T>(sum / count);
        hz[static_cast<std::size_t>(i)] = static_cast<T>(sum_of_products / count);
      });
    }
    if (!x_grad) return;
    p.of_channels ? channel_gradients(h, hz) : row_gradients();
  }
};

void norm_kernel(const KernelContext&, const NormProblem& p, const NDArray& x, const NDArray& weight,
                 const NDArray& bias, const NDArray& y, const NDArray& mean, const NDArray& scale,
                 const NDArray& variance) {
  visit_floating_or_half(x.dtype(), [&]<class X>() {
    using T = ComputeType<X>;
    Forward<X>{p,           x.data<const X>(), read<T>(weight), read<T>(bias),
               y.data<X>(), mean.data<T>(),    scale.data<T>(), written<T>(variance)}
        .run();
  });
}

void norm_backward_kernel(const KernelContext&, const NormProblem& p, const NDArray& g, const NDArray& x,
                          const NDArray& weight, const NDArray& mean, const NDArray& scale,
                          const NormGradients& gradients) {
  visit_floating_or_half(x.dtype(), [&]<class X>() {
    using T = ComputeType<X>;
    Backward<X>{p,
                g.data<const X>(),
                x.data<const X>(),
                read<T>(weight),
                mean.data<const T>(),
                scale.data<const T>(),
                written<X>(gradients.x),
                written<T>(gradients.weight),
                written<T>(gradients.bias)}
        .run();
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(norm) {
  table.add<NormKernel>("normalise", DeviceKind::cpu, norm_kernel);
  table.add<NormBackwardKernel>("normalise_backward", DeviceKind::cpu, norm_backward_kernel);
}

}  // namespace heddle::cpu_kernels
