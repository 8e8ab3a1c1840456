#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/kernel_table.h"
#include "core/scaled.h"
#include "cpu/loops/lines.h"
#include "cpu/scratch.h"
#include "families/scan/kernels.h"
#include "families/scan/products_functors.h"

namespace heddle::cpu_kernels {

using functors::Scaled, functors::WeightedSum;

namespace {

// The type in which totals are computed: f64 for floats; u64 for integers, which wrap around.
template <class T> using Total = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;

struct Plus {
  static constexpr int kStart = 0;
  template <class P> P operator()(P a, P b) const { return a + b; }
};
struct Times {
  static constexpr int kStart = 1;
  template <class P> P operator()(P a, P b) const { return a * b; }
};

template <class F, class T>
void scan_lines(const T* x, T* y, std::int64_t length, std::int64_t step, std::int64_t width) {
  using P = Total<T>;
  if (width == 1) {
    P total = F::kStart;
    for (std::int64_t i = 0; i < length; ++i) {
      total = F{}(total, static_cast<P>(x[i * step]));
      y[i * step] = static_cast<T>(total);
    }
    return;
  }
  std::array<P, kTile> totals;
  totals.fill(F::kStart);
  for (std::int64_t i = 0; i < length; ++i) {
    const T* from = x + i * step;
    T* to = y + i * step;
#pragma GCC ivdep
    for (std::int64_t j = 0; j < width; ++j) {
      totals[j] = F{}(totals[j], static_cast<P>(from[j]));
      to[j] = static_cast<T>(totals[j]);
    }
  }
}

template <class F> void scan_kernel(const KernelContext&, const NDArray& x, const NDArray& y, int axis) {
  if (y.size() == 0) return;
  const Lines lines(x.shape(), axis);
  const auto scan = [&]<class T>() {
    const T* from = x.data<const T>();
    T* to = y.data<T>();
    lines.run([&](std::int64_t at, std::int64_t width) {
      scan_lines<F>(from + at, to + at, lines.length, lines.inner, width);
    });
  };
  if (x.dtype() == DType::f64) return scan.template operator()<double>();
  if (x.dtype() == DType::i64) return scan.template operator()<std::int64_t>();
  if (x.dtype() == DType::u64) return scan.template operator()<std::uint64_t>();
  scan.template operator()<float>();
}

void cumprod_gradient_kernel(const KernelContext&, const NDArray& gradient, const NDArray& x,
                             const NDArray& y, int axis) {
  if (y.size() == 0) return;
  const Lines lines(x.shape(), axis);
  const auto compute = [&]<class T>() {
    const T* g = gradient.data<const T>();
    const T* from = x.data<const T>();
    T* to = y.data<T>();
    lines.run([&](std::int64_t at, std::int64_t width) {
      const Scratch sums(static_cast<std::size_t>(lines.length) * sizeof(WeightedSum));
      for (std::int64_t j = at; j < at + width; ++j)
        functors::cumprod_gradient(g + j, from + j, to + j, lines.length, lines.inner,
                                   sums.as<WeightedSum>());
    });
  };
  if (x.dtype() == DType::f64) return compute.template operator()<double>();
  compute.template operator()<float>();
}

// For each element, the product of the line divided by the element. Lines with a 0, an infinity or NaN, or
// whose product overflows or underflows on the way, use functors::product_of_others(): subnormal products have
// lost digits.
template <class T>
void product_of_others(const T* x, T* y, std::int64_t length, std::int64_t step, std::int64_t width,
                       Scaled* scratch) {
  std::array<double, kTile> totals, least;
  totals.fill(1);
  least.fill(1);
  for (std::int64_t i = 0; i < length; ++i) {
    const T* from = x + i * step;
    for (std::int64_t j = 0; j < width; ++j) {
      totals[j] *= static_cast<double>(from[j]);
      least[j] = std::min(least[j], std::abs(totals[j]));
    }
  }
  for (std::int64_t i = 0; i < length; ++i) {
    const T* from = x + i * step;
    T* to = y + i * step;
#pragma GCC ivdep
    for (std::int64_t j = 0; j < width; ++j) to[j] = static_cast<T>(totals[j] / static_cast<double>(from[j]));
  }
  for (std::int64_t j = 0; j < width; ++j) {
    if (!std::isfinite(totals[j]) || least[j] < std::numeric_limits<double>::min())
      functors::product_of_others(x + j, y + j, length, step, scratch);
  }
}

void product_of_others_kernel(const KernelContext&, const NDArray& x, const NDArray& y, int axis) {
  if (y.size() == 0) return;
  const Lines lines(x.shape(), axis);
  const auto compute = [&]<class T>() {
    const T* from = x.data<const T>();
    T* to = y.data<T>();
    lines.run([&](std::int64_t at, std::int64_t width) {
      const Scratch scratch(static_cast<std::size_t>(lines.length) * sizeof(Scaled));
      product_of_others(from + at, to + at, lines.length, lines.inner, width, scratch.as<Scaled>());
    });
  };
  if (x.dtype() == DType::f64) return compute.template operator()<double>();
  compute.template operator()<float>();
}

// Whether x replaces the largest element so far: a later equal one does, and so does a NaN.
struct Above {
  template <class T> bool operator()(T x, T best) const { return x >= best || x != x; }
};
struct Below {
  template <class T> bool operator()(T x, T best) const { return x <= best || x != x; }
};

template <class F, class T>
void extreme_line(const T* x, T* values, std::int64_t* indices, std::int64_t length, std::int64_t step) {
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < length; ++i) {
    if (F{}(x[i * step], x[at * step])) at = i;
    values[i * step] = x[at * step];
    indices[i * step] = at;
  }
}

template <class F>
void extreme_kernel(const KernelContext&, const NDArray& x, const NDArray& values, const NDArray& indices,
                    int axis) {
  if (x.size() == 0) return;
  const Lines lines(x.shape(), axis);
  visit_number(x.dtype(), [&]<class T> {
    const T* from = x.data<const T>();
    T* to = values.data<T>();
    auto* places = indices.data<std::int64_t>();
    lines.run([&](std::int64_t at, std::int64_t width) {
      for (std::int64_t j = at; j < at + width; ++j)
        extreme_line<F>(from + j, to + j, places + j, lines.length, lines.inner);
    });
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(scan) {
  table.add<ScanKernel>("cumsum", DeviceKind::cpu, scan_kernel<Plus>);
  table.add<ScanKernel>("cumprod", DeviceKind::cpu, scan_kernel<Times>);
  table.add<CumprodGradientKernel>("cumprod_gradient", DeviceKind::cpu, cumprod_gradient_kernel);
  table.add<ScanKernel>("product_of_others", DeviceKind::cpu, product_of_others_kernel);
  table.add<ScanExtremeKernel>("cummax", DeviceKind::cpu, extreme_kernel<Above>);
  table.add<ScanExtremeKernel>("cummin", DeviceKind::cpu, extreme_kernel<Below>);
}

}  // namespace heddle::cpu_kernels
