#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/kernel_table.h"
#include "families/reduce/cpu/loops.h"
#include "families/reduce/kernels.h"

namespace heddle::cpu_kernels {

namespace {

// The type in which elements are added: f64 for floats; u64 for integers, which may wrap around.
template <class T> using SumOf = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;

struct Sum {
  template <class T> using Partial = SumOf<T>;
  template <class T> static Partial<T> start() { return 0; }
  template <class P, class T> static P take(T x) { return static_cast<P>(x); }
  template <class P> static P join(P a, P b) { return a + b; }
  template <class R, class P> static R finish(P total, std::int64_t) { return static_cast<R>(total); }
};

struct Product : Sum {
  template <class T> static Partial<T> start() { return 1; }
  template <class P> static P join(P a, P b) { return a * b; }
};

// 2^power, the factor of elements that keeps their sum, or the sum of their squares, from overflow and
// underflow.
constexpr double scale_of(int power) {
  double scale = 1;
  for (; power > 0; --power) scale *= 2;
  for (; power < 0; ++power) scale /= 2;
  return scale;
}
template <int power> inline constexpr double kScale = scale_of(power);

template <int power> struct Mean : Sum {
  template <class P, class T> static P take(T x) { return static_cast<P>(x) * kScale<power>; }
  template <class R, class P> static R finish(P total, std::int64_t count) {
    return static_cast<R>(total / static_cast<P>(count) * kScale<-power>);
  }
};

struct SumOfSquares : Sum {
  template <class P, class T> static P take(T x) { return static_cast<P>(x) * static_cast<P>(x); }
};

// The root of the sum of squares.
template <int power> struct Norm : Sum {
  template <class P, class T> static P take(T x) {
    const P scaled = static_cast<P>(x) * kScale<power>;
    return scaled * scaled;
  }
  template <class R, class P> static R finish(P total, std::int64_t) {
    return static_cast<R>(std::sqrt(total) * kScale<-power>);
  }
};

// NaN if either value is. Two conditional moves, which the compiler vectorizes.
struct Max {
  template <class T> using Partial = T;
  template <class T> static T start() {
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  }
  template <class P, class T> static P take(T x) { return static_cast<P>(x); }
  template <class T> static T join(T a, T b) {
    const T larger = b > a ? b : a;
    return b != b ? b : larger;
  }
  template <class R, class P> static R finish(P best, std::int64_t) { return best; }
};

struct Min : Max {
  template <class T> static T start() {
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
  template <class T> static T join(T a, T b) {
    const T smaller = b < a ? b : a;
    return b != b ? b : smaller;
  }
};

// The type of the result of a sum or product, as of sum_dtype().
template <class T>
using Total = std::conditional_t<
    std::is_floating_point_v<T>, T,
    std::conditional_t<std::is_unsigned_v<T> && !std::is_same_v<T, bool>, std::uint64_t, std::int64_t>>;

template <class F, class T, class R> const ReduceLoops& loops_of() { return reduction::Loops<F, T, R>::kAll; }

// Computes bool as u8 and i64 as u64, since the sum has the same bits.
template <class F>
void sum_kernel(const KernelContext&, const NDArray& x, const NDArray& y, const Dims& axes) {
  const DType dtype = x.dtype() == DType::boolean ? DType::u8
                      : x.dtype() == DType::i64   ? DType::u64
                                                  : x.dtype();
  visit_number(dtype, [&]<class T> {
    if constexpr (!std::is_same_v<T, bool> && !std::is_same_v<T, std::int64_t>)
      reduce(x, y, axes, loops_of<F, T, Total<T>>());
  });
}

// Reduces f64 again, with other loops, if left() says of any result that it left the range. Replaces only
// these results.
template <class Left>
void reduce_again(const NDArray& x, const NDArray& y, const Dims& axes, const ReduceLoops& loops, Left left) {
  double* results = y.data<double>();
  const std::vector<double> before(results, results + y.size());
  if (std::none_of(before.begin(), before.end(), left)) return;
  reduce(x, y, axes, loops);
  for (std::size_t i = 0; i < before.size(); ++i)
    if (!left(before[i])) results[i] = before[i];
}

// Sums of f32 are computed in f64 and do not overflow.
void mean_kernel(const KernelContext&, const NDArray& x, const NDArray& y, const Dims& axes) {
  if (x.dtype() == DType::f32) return reduce(x, y, axes, loops_of<Mean<0>, float, float>());
  reduce(x, y, axes, loops_of<Mean<0>, double, double>());
  reduce_again(x, y, axes, loops_of<Mean<-64>, double, double>(),
               [](double mean) { return !std::isfinite(mean); });
}

void sum_of_squares_kernel(const KernelContext&, const NDArray& x, const NDArray& y, const Dims& axes) {
  if (x.dtype() == DType::f32) return reduce(x, y, axes, loops_of<SumOfSquares, float, double>());
  reduce(x, y, axes, loops_of<SumOfSquares, double, double>());
}

void norm_kernel(const KernelContext&, const NDArray& x, const NDArray& y, const Dims& axes) {
  if (x.dtype() == DType::f32) return reduce(x, y, axes, loops_of<Norm<0>, float, float>());
  reduce(x, y, axes, loops_of<Norm<0>, double, double>());
  reduce_again(x, y, axes, loops_of<Norm<-600>, double, double>(),
               [](double norm) { return std::isinf(norm); });
  reduce_again(x, y, axes, loops_of<Norm<600>, double, double>(),
               [](double norm) { return norm < 0x1p-480; });
}

// Computes bool as u8.
template <class F>
void extreme_kernel(const KernelContext&, const NDArray& x, const NDArray& y, const Dims& axes) {
  visit_number(x.dtype() == DType::boolean ? DType::u8 : x.dtype(), [&]<class T> {
    if constexpr (!std::is_same_v<T, bool>) reduce(x, y, axes, loops_of<F, T, T>());
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(reduce) {
  table.add<ReduceKernel>("sum", DeviceKind::cpu, sum_kernel<Sum>);
  table.add<ReduceKernel>("mean", DeviceKind::cpu, mean_kernel);
  table.add<ReduceKernel>("sum_of_squares", DeviceKind::cpu, sum_of_squares_kernel);
  table.add<ReduceKernel>("norm", DeviceKind::cpu, norm_kernel);
  table.add<ReduceKernel>("prod", DeviceKind::cpu, sum_kernel<Product>);
  table.add<ReduceKernel>("max", DeviceKind::cpu, extreme_kernel<Max>);
  table.add<ReduceKernel>("min", DeviceKind::cpu, extreme_kernel<Min>);
}

}  // namespace heddle::cpu_kernels
