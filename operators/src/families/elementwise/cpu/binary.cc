#include <cmath>
#include <functional>
#include <type_traits>

#include <heddle/error.h>

#include "core/kernel_table.h"
#include "cpu/loops/map.h"
#include "cpu/loops/strided_loop.h"
#include "families/elementwise/kernels.h"

namespace heddle::cpu_kernels {

namespace {

template <class T> inline constexpr bool is_real = std::is_floating_point_v<T>;
template <class T> inline constexpr bool is_bool = std::is_same_v<T, bool>;

struct Add {
  template <class T> T operator()(T a, T b) const {
    if constexpr (is_real<T>)
      return a + b;
    else if constexpr (is_bool<T>)
      return a || b;
    else
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};

struct Subtract {
  template <class T> T operator()(T a, T b) const {
    if constexpr (is_real<T>)
      return a - b;
    else
      return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
  }
};

struct Multiply {
  template <class T> T operator()(T a, T b) const {
    if constexpr (is_real<T>)
      return a * b;
    else if constexpr (is_bool<T>)
      return a && b;
    else
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};

struct Divide {
  template <class T> T operator()(T a, T b) const { return a / b; }
};

template <class T> T integer_power(T base, T exponent) {
  T result{1};
  for (auto rest = static_cast<Wrapping<T>>(exponent); rest; rest >>= 1) {
    if (rest & 1) result = Multiply{}(result, base);
    base = Multiply{}(base, base);
  }
  return result;
}

// Checks all exponents before anything is written.
void check_exponents(const NDArray& exponents) {
  const StridedLoop<1> loop(exponents.shape(), {exponents.strides()});
  const std::int64_t step = loop.inner_steps()[0];
  visit_number(exponents.dtype(), [&]<class T> {
    if constexpr (!std::is_integral_v<T> || !std::is_signed_v<T>) return;
    const T* from = exponents.data<const T>();
    loop.run([&](const auto& at, std::int64_t n) {
      bool negative = false;
      for (std::int64_t i = 0; i < n; ++i) negative |= from[at[0] + i * step] < T{0};
      if (negative) throw InvalidArgument("power: an integer to a negative integer power");
    });
  });
}

struct Power {
  template <class T> T operator()(T a, T b) const {
    if constexpr (is_real<T>)
      return std::pow(a, b);
    else if constexpr (is_bool<T>)
      return a || !b;
    else
      return integer_power(a, b);
  }
};

// NaN if a or b is NaN: a != a selects a NaN a, and a comparison with a NaN b is false, which selects b. |
// instead of ||: branches are slow with random numbers.
struct Maximum {
  static constexpr bool kInBlocks = true;
  template <class T> T operator()(T a, T b) const { return int{a > b} | int{a != a} ? a : b; }
};
struct Minimum {
  static constexpr bool kInBlocks = true;
  template <class T> T operator()(T a, T b) const { return int{a < b} | int{a != a} ? a : b; }
};

struct AbsGradient {
  template <class T> T operator()(T g, T x) const { return x > 0 ? g : x < 0 ? -g : x; }  // x is 0 or NaN
};
struct SquareGradient {
  template <class T> T operator()(T g, T x) const { return 2 * g * x; }
};
struct ReluGradient {
  template <class T> T operator()(T g, T y) const { return y <= 0 ? T{0} : g; }  // g itself if y is NaN
};
struct SqrtGradient {
  template <class T> T operator()(T g, T y) const { return g / (2 * y); }
};
struct TanhGradient {
  template <class T> T operator()(T g, T y) const { return g * (1 - y * y); }
};
struct SigmoidGradient {
  template <class T> T operator()(T g, T y) const { return g * y * (1 - y); }
};
// The share of a in the gradient of maximum(a, b), or of minimum(a, b): half of it if they are equal. A NaN
// has all of it.
template <class F> struct Share {
  template <class T> T operator()(T a, T b) const {
    const bool a_nan = a != a, b_nan = b != b;
    if (a == b || (a_nan && b_nan)) return T{0.5};
    return a_nan || (!b_nan && F{}(a, b)) ? T{1} : T{0};
  }
};
// Halves before subtracting, since the difference may leave the range.
struct HalfDifference {
  template <class T> T operator()(T a, T b) const { return a * T{0.5} - b * T{0.5}; }
};

void power_kernel(const KernelContext& context, const Operand& a, const Operand& b, const NDArray& y) {
  if (!is_floating(y.dtype()) && b.is_array && y.size() > 0) check_exponents(b.array);
  binary_kernel<Power>(context, a, b, y);
}

}  // namespace

HEDDLE_CPU_KERNELS(binary) {
  table.add<BinaryKernel>("add", DeviceKind::cpu, binary_word_kernel<Add>);
  table.add<BinaryKernel>("subtract", DeviceKind::cpu, binary_word_kernel<Subtract>);
  table.add<BinaryKernel>("multiply", DeviceKind::cpu, binary_word_kernel<Multiply>);
  table.add<BinaryKernel>("divide", DeviceKind::cpu, binary_floating_kernel<Divide>);
  table.add<BinaryKernel>("power", DeviceKind::cpu, power_kernel);
  table.add<BinaryKernel>("maximum", DeviceKind::cpu, binary_kernel<Maximum>);
  table.add<BinaryKernel>("minimum", DeviceKind::cpu, binary_kernel<Minimum>);
  table.add<BinaryKernel>("abs_gradient", DeviceKind::cpu, binary_floating_kernel<AbsGradient>);
  table.add<BinaryKernel>("square_gradient", DeviceKind::cpu, binary_floating_kernel<SquareGradient>);
  table.add<BinaryKernel>("relu_gradient", DeviceKind::cpu, binary_floating_kernel<ReluGradient>);
  table.add<BinaryKernel>("sqrt_gradient", DeviceKind::cpu, binary_floating_kernel<SqrtGradient>);
  table.add<BinaryKernel>("tanh_gradient", DeviceKind::cpu, binary_floating_kernel<TanhGradient>);
  table.add<BinaryKernel>("sigmoid_gradient", DeviceKind::cpu, binary_floating_kernel<SigmoidGradient>);
  table.add<BinaryKernel>("larger_share", DeviceKind::cpu, binary_floating_kernel<Share<std::greater<>>>);
  table.add<BinaryKernel>("smaller_share", DeviceKind::cpu, binary_floating_kernel<Share<std::less<>>>);
  table.add<BinaryKernel>("half_difference", DeviceKind::cpu, binary_floating_kernel<HalfDifference>);
}

}  // namespace heddle::cpu_kernels
