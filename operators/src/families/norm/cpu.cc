// Kernels of the normalisations. Sums are added in a fixed order, whatever the number of workers.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <heddle/parallel.h>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "cpu/scratch.h"
#include "families/norm/kernels.h"

namespace heddle::cpu_kernels {
namespace {

constexpr std::int64_t kGrain = 16384;  // elements per chunk
constexpr std::int64_t kColumns = 64;   // channels that are summed together where inner is 1
constexpr std::int64_t kShort = 64;     // lines of fewer elements are summed one element at a time
constexpr std::int64_t kBlocks = 64;    // most blocks of rows whose sums are added up at the end
constexpr std::int64_t kRows = 32;      // rows whose terms are added in the arrays' type

std::int64_t per_chunk(std::int64_t elements) {
  return std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, elements));
}

// values[0] + ... + values[n - 1], pairwise, which vectors add.
template <int n> double tree_sum(double* values) {
  if constexpr (n == 1) {
    return values[0];
  } else {
    for (int k = 0; k < n / 2; ++k) values[k] += values[k + n / 2];
    return tree_sum<n / 2>(values);
  }
}
template <int n, class T> double lane_sum(const T (&lanes)[n]) {
  double wide[n];
  for (int k = 0; k < n; ++k) wide[k] = static_cast<double>(lanes[k]);
  return tree_sum<n>(wide);
}

// Two sums, of a(0) ... a(n - 1) and of b(0) ... b(n - 1): some hundred terms in each of several sums of type T, which vectors
// add, and these in f64.
struct TwoSums {
  double a = 0, b = 0;
};
template <class T, class A, class B>
[[gnu::always_inline]] inline TwoSums sums_of(std::int64_t n, const A& a, const B& b) {
  constexpr int kLanes = 128 / sizeof(T);
  constexpr std::int64_t kBlock = 64 * kLanes;
  TwoSums sums;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t end = std::min(n, begin + kBlock);
    T of_a[kLanes] = {}, of_b[kLanes] = {};
    std::int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes)
      for (std::int64_t k = 0; k < kLanes; ++k) of_a[k] += a(i + k), of_b[k] += b(i + k);
    for (std::int64_t k = 0; i < end; ++i, ++k) of_a[k] += a(i), of_b[k] += b(i);
    sums.a += lane_sum(of_a);
    sums.b += lane_sum(of_b);
  }
  return sums;
}
// The two sums of sums_of() without lanes: faster for lines that have fewer elements than there are lanes.
template <class T, class A, class B>
[[gnu::always_inline]] inline TwoSums short_sums_of(std::int64_t n, const A& a, const B& b) {
  T sum_a = 0, sum_b = 0;
  for (std::int64_t i = 0; i < n; ++i) sum_a += a(i), sum_b += b(i);
  return {static_cast<double>(sum_a), static_cast<double>(sum_b)};
}
template <class T, class Term> [[gnu::always_inline]] inline double sum_of(std::int64_t n, const Term& term) {
  return sums_of<T>(n, term, [](std::int64_t) { return T{0}; }).a;
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
        const auto of_a = [&](std::int64_t i) { return a(at + i, statistic); };
        const auto of_b = [&](std::int64_t i) { return b(at + i, statistic); };
        const TwoSums sums =
            p.inner < kShort ? short_sums_of<T>(p.inner, of_a, of_b) : sums_of<T>(p.inner, of_a, of_b);
        sum_a += sums.a;
        sum_b += sums.b;
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
    // Squares that overflow leave the scale unknown. A scale of 0 would hide that.
    const double inverse =
        std::isinf(squares) ? std::numeric_limits<double>::quiet_NaN() : 1 / std::sqrt(squares + p.epsilon);
    scale[statistic] = static_cast<T>(inverse);
    if (variance) variance[statistic] = static_cast<T>(squares);
  }
  void row_statistics(std::int64_t row) const {
    const std::int64_t n = p.channels * p.inner;
    const X* const from = x + row * n;
    const auto count = static_cast<double>(n);
    const double m =
        p.centered ? sum_of<T>(n, [&](std::int64_t i) { return static_cast<T>(from[i]); }) / count : 0;
    const T middle = static_cast<T>(m);
    set(row, m, sum_of<T>(n, [&](std::int64_t i) {
                  const T d = static_cast<T>(from[i]) - middle;
                  return d * d;
                }) / count);
  }
  // Statistics and results of one row after the other, which stays in cache.
  void run_rows() const {
    const std::int64_t n = p.channels * p.inner;
    parallel_for(p.rows, per_chunk(n), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        row_statistics(row);
        const std::int64_t first = (row % p.groups) * p.channels;
        for (std::int64_t channel = 0; channel < (p.inner == 1 ? 1 : p.channels); ++channel)
          line(row, channel, first + channel, row * n + channel * p.inner);
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
    if (!p.of_channels) return run_rows();
    channel_statistics();
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
      const TwoSums sums = sums_of<T>(length, value, [&](std::int64_t i) {
        return value(i) * ((static_cast<T>(of_x[i]) - middle) * factor);
      });
      h += sums.a;
      hz += sums.b;
    }
  }
  void row_gradient(std::int64_t row) const {
    double h = 0, hz = 0;
    row_sums(row, h, hz);
    const std::int64_t n = p.channels * p.inner, first = (row % p.groups) * p.channels;
    const auto count = static_cast<double>(n);
    const T mean_h = p.centered ? static_cast<T>(h / count) : T{0}, mean_hz = static_cast<T>(hz / count);
    const T factor = scale[row], middle = mean[row];
    const X *of_g = g + row * n, *of_x = x + row * n;
    X* to = x_grad + row * n;
    if (p.inner == 1) {
      for (std::int64_t i = 0; i < n; ++i)
        to[i] = static_cast<X>(factor * (static_cast<T>(of_g[i]) * weight_at(first + i) - mean_h -
                                         (static_cast<T>(of_x[i]) - middle) * factor * mean_hz));
      return;
    }
    for (std::int64_t c = 0; c < p.channels; ++c, of_g += p.inner, of_x += p.inner, to += p.inner) {
      const T w = weight_at(first + c);
      for (std::int64_t i = 0; i < p.inner; ++i)
        to[i] = static_cast<X>(factor * (static_cast<T>(of_g[i]) * w - mean_h -
                                         (static_cast<T>(of_x[i]) - middle) * factor * mean_hz));
    }
  }
  void row_gradients() const {
    parallel_for(p.rows, per_chunk(p.channels * p.inner), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) row_gradient(row);
    });
  }

  // Adds the rows' g and g z to the sums of each element.
  void add_rows(std::int64_t begin, std::int64_t end, double* sums) const {
    const std::int64_t n = p.channels;
    const Scratch scratch(2 * sizeof(T) * static_cast<std::size_t>(n));
    T *const of_g = scratch.as<T>(), *const of_gz = of_g + n;
    for (; begin < end; begin += kRows) {
      std::fill_n(of_g, 2 * n, T{0});
      for (std::int64_t row = begin; row < std::min(end, begin + kRows); ++row) {
        const X *const from_g = g + row * n, *const from_x = x + row * n;
        const T middle = mean[row], factor = scale[row];
        for (std::int64_t i = 0; i < n; ++i) {
          const T g_here = static_cast<T>(from_g[i]);
          of_g[i] += g_here;
          of_gz[i] += g_here * ((static_cast<T>(from_x[i]) - middle) * factor);
        }
        if (x_grad) row_gradient(row);
      }
      for (std::int64_t i = 0; i < 2 * n; ++i) sums[i] += static_cast<double>(of_g[i]);
    }
  }
  // All gradients where each element of a row has its weight: one pass over the rows, in blocks, whose sums are added in order.
  void whole_rows() const {
    const std::int64_t n = p.channels;
    const std::int64_t blocks = std::min(kBlocks, (p.rows + per_chunk(n) - 1) / per_chunk(n));
    const std::int64_t rows = blocks == 0 ? 1 : (p.rows + blocks - 1) / blocks;
    std::vector<double> sums(static_cast<std::size_t>(2 * n * blocks));
    parallel_for(p.rows, rows, [&](std::int64_t begin, std::int64_t end) {
      add_rows(begin, end, sums.data() + begin / rows * 2 * n);
    });
    parallel_for(n, per_chunk(2 * blocks), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        TwoSums all;
        for (std::int64_t block = 0; block < blocks; ++block) {
          const double* const of_block = sums.data() + block * 2 * n;
          all.a += of_block[i];
          all.b += of_block[n + i];
        }
        if (bias_grad) bias_grad[i] = static_cast<T>(all.a);
        if (weight_grad) weight_grad[i] = static_cast<T>(all.b);
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
    if (!p.of_channels && p.inner == 1 && p.groups == 1 && (weight_grad || bias_grad)) return whole_rows();
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
