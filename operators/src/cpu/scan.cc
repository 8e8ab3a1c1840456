#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "cpu/chunks.h"
#include "cpu/register.h"
#include "kernels/scan_kernels.h"

namespace heddle::cpu_kernels {

namespace {

constexpr std::int64_t kTile = 256;  // neighbouring lines that are scanned together

// Lines of `length` elements that lie `inner` apart, in blocks of `inner` neighbouring lines.
struct Lines {
  Lines(const Shape& shape, int axis) : length(shape[axis]) {
    for (int d = 0; d < shape.size(); ++d) (d < axis ? outer : d > axis ? inner : ignored) *= shape[d];
  }
  // body(offset of the first line, number of neighbouring lines)
  template <class Body> void run(const Body& body) const {
    const std::int64_t across = (inner + kTile - 1) / kTile;
    const std::int64_t grain =
        std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, length * std::min(inner, kTile)));
    parallel_chunks(outer * across, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t tile = begin; tile < end; ++tile) {
        const std::int64_t column = tile % across * kTile;
        body(tile / across * length * inner + column, std::min(kTile, inner - column));
      }
    });
  }

  std::int64_t length, outer = 1, inner = 1, ignored = 1;
};

// f64 for floats; unsigned for integers, which wrap around.
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

template <class F> void scan_kernel(const NDArray& x, const NDArray& y, int axis) {
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
  scan.template operator()<float>();
}

// One line: element i gets the sum over j >= i of g[j] times the product of all x up to j but x[i]. Before the first 0 that
// is the rest of the sum of g * y over x[i]; of the first 0 itself the product leaves it out; behind it all is 0.
template <class T>
void cumprod_gradient(const T* g, const T* x, T* y, std::int64_t length, std::int64_t step) {
  std::int64_t zero = 0;
  double product = 1, rest = 0;
  for (; zero < length && x[zero * step] != 0; ++zero) {
    product *= static_cast<double>(x[zero * step]);
    rest += static_cast<double>(g[zero * step]) * product;
  }
  double before = 1;
  for (std::int64_t i = 0; i < zero; ++i) {
    const auto value = static_cast<double>(x[i * step]);
    y[i * step] = static_cast<T>(rest / value);
    before *= value;
    rest -= static_cast<double>(g[i * step]) * before;
  }
  if (zero == length) return;
  double total = 0;
  for (std::int64_t j = zero; j < length; ++j) {
    if (j > zero) product *= static_cast<double>(x[j * step]);
    total += static_cast<double>(g[j * step]) * product;
  }
  y[zero * step] = static_cast<T>(total);
  for (std::int64_t i = zero + 1; i < length; ++i) y[i * step] = 0;
}

void cumprod_gradient_kernel(const NDArray& gradient, const NDArray& x, const NDArray& y, int axis) {
  if (y.size() == 0) return;
  const Lines lines(x.shape(), axis);
  const auto compute = [&]<class T>() {
    const T* g = gradient.data<const T>();
    const T* from = x.data<const T>();
    T* to = y.data<T>();
    lines.run([&](std::int64_t at, std::int64_t width) {
      for (std::int64_t j = at; j < at + width; ++j)
        cumprod_gradient(g + j, from + j, to + j, lines.length, lines.inner);
    });
  };
  if (x.dtype() == DType::f64) return compute.template operator()<double>();
  compute.template operator()<float>();
}

}  // namespace

void register_scan(KernelTable& table) {
  table.add<ScanKernel>("cumsum", DeviceKind::cpu, scan_kernel<Plus>);
  table.add<ScanKernel>("cumprod", DeviceKind::cpu, scan_kernel<Times>);
  table.add<CumprodGradientKernel>("cumprod_gradient", DeviceKind::cpu, cumprod_gradient_kernel);
}

}  // namespace heddle::cpu_kernels
