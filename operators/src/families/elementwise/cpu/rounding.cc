// Rounding, signs, classes of numbers, and the bits of one operand.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/kernel_table.h"
#include "cpu/loops/map.h"
#include "cpu/loops/strided_loop.h"
#include "families/elementwise/kernels.h"

namespace heddle::cpu_kernels {

namespace {

struct Floor {
  template <class T> T operator()(T x) const { return std::floor(x); }
};
struct Ceil {
  template <class T> T operator()(T x) const { return std::ceil(x); }
};
// The rounding mode is always to nearest, halves to even.
struct Round {
  template <class T> T operator()(T x) const { return std::nearbyint(x); }
};
struct Trunc {
  template <class T> T operator()(T x) const { return std::trunc(x); }
};
struct Sign {
  template <class T> T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) {
      return x > 0 ? T{1} : x < 0 ? T{-1} : x == 0 ? T{0} : x;
    } else {
      return static_cast<T>((x > T{0}) - (x < T{0}));
    }
  }
};

// Tests of the bits, since options of the compiler may assume that there are neither NaN nor infinities.
template <class T> using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
template <class T> constexpr Bits<T> kInfinity = std::bit_cast<Bits<T>>(std::numeric_limits<T>::infinity());
template <class T> Bits<T> magnitude(T x) { return std::bit_cast<Bits<T>>(x) << 1 >> 1; }

struct IsNan {
  template <class T> bool operator()(T x) const { return magnitude(x) > kInfinity<T>; }
};
struct IsInf {
  template <class T> bool operator()(T x) const { return magnitude(x) == kInfinity<T>; }
};
struct IsFinite {
  template <class T> bool operator()(T x) const { return magnitude(x) < kInfinity<T>; }
};
struct SignBit {
  template <class T> bool operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) return magnitude(x) != std::bit_cast<Bits<T>>(x);
    return x < T{0};
  }
};

struct Invert {
  template <class T> T operator()(T x) const {
    if constexpr (std::is_same_v<T, bool>)
      return !x;
    else
      return static_cast<T>(~x);
  }
};

struct Same {
  template <class T> T operator()(T x) const { return x; }
};
// Integers and bools are unchanged: they are rounded already.
template <class F> void rounding_kernel(const KernelContext& context, const NDArray& x, const NDArray& y) {
  if (is_floating(y.dtype())) return unary_floating_kernel<F>(context, x, y);
  visit_word(y.dtype(), [&]<class T> {
    if constexpr (std::is_integral_v<T>) map_unary<T, T>(x, y, Same{});
  });
}

// `otherwise`: the result for integers and bools.
template <class F, bool otherwise>
void class_kernel(const KernelContext&, const NDArray& x, const NDArray& y) {
  if (is_half(x.dtype())) return map_half_unary<bool>(x, y, F{});
  if (x.dtype() == DType::f64) return map_unary<double, bool>(x, y, F{});
  if (x.dtype() == DType::f32) return map_unary<float, bool>(x, y, F{});
  const StridedLoop<1> loop(y.shape(), {y.strides()});
  bool* to = y.data<bool>();
  loop.run([&, step = loop.inner_steps()[0]](const auto& at, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) to[at[0] + i * step] = otherwise;
  });
}

void sign_bit_kernel(const KernelContext&, const NDArray& x, const NDArray& y) {
  if (is_half(x.dtype())) return map_half_unary<bool>(x, y, SignBit{});
  visit_number(x.dtype(), [&]<class T> { map_unary<T, bool>(x, y, SignBit{}); });
}

void invert_kernel(const KernelContext&, const NDArray& x, const NDArray& y) {
  visit_word(y.dtype(), [&]<class T> {
    if constexpr (std::is_integral_v<T>) map_unary<T, T>(x, y, Invert{});
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(rounding) {
  const auto add = [&](const char* name, UnaryKernel* kernel) {
    table.add<UnaryKernel>(name, DeviceKind::cpu, kernel);
  };
  add("floor", rounding_kernel<Floor>);
  add("ceil", rounding_kernel<Ceil>);
  add("round", rounding_kernel<Round>);
  add("trunc", rounding_kernel<Trunc>);
  add("sign", unary_kernel<Sign>);
  add("isnan", class_kernel<IsNan, false>);
  add("isinf", class_kernel<IsInf, false>);
  add("isfinite", class_kernel<IsFinite, true>);
  add("signbit", sign_bit_kernel);
  add("bitwise_invert", invert_kernel);
}

}  // namespace heddle::cpu_kernels
