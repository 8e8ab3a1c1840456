// Sums, products, quotients, powers, and the larger of two numbers: a row for each operator.
#include <cmath>
#include <functional>
#include <type_traits>

#include <heddle/elementwise.h>
#include <heddle/error.h>

#include "cpu/loops/map.h"
#include "cpu/loops/strided_loop.h"
#include "families/elementwise/arithmetic_functors.h"
#include "families/elementwise/rows.h"

namespace heddle::cpu_kernels {

namespace {

using namespace functors;

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

void power_kernel(const KernelContext& context, const Operand& a, const Operand& b, const NDArray& y) {
  if (!is_floating(y.dtype()) && b.is_array && y.size() > 0) check_exponents(b.array);
  binary_kernel<Power>(context, a, b, y);
}

}  // namespace
}  // namespace heddle::cpu_kernels

namespace heddle {

using namespace operators_detail;

namespace {

// The gradient of the base: b * a^(b-1), and 0 for b = 0, where the formula gives NaN at a = 0.
NDArray power_base(const BinaryValues& v) {
  if (!v.b.is_array) {
    const double exponent = v.b.scalar.real();
    if (exponent == 0) return multiply(v.gradient, 0);
    return multiply(multiply(v.gradient, power(v.a, exponent - 1)), exponent);
  }
  const NDArray slope = multiply(v.b, power(v.a, subtract(v.b, 1)));
  return multiply(v.gradient, where(equal(v.b, 0), 0, slope));
}

// The gradient of the exponent: log(a) * a^b, and 0 for a = 0 where b >= 0, its limit for b > 0. For b < 0
// the product gives the limit, -inf.
NDArray power_exponent(const BinaryValues& v) {
  const NDArray scaled = multiply(v.gradient, v.y);
  if (v.a.is_array) {
    // log(1) in place of log(0), since the second gradient would have 0 times infinity otherwise.
    const NDArray flat = multiply(equal(v.a, 0), greater_equal(v.b, 0));
    return multiply(scaled, log(where(flat, 1, v.a.array)));
  }
  const double base = v.a.scalar.real();
  const NDArray slope = multiply(scaled, std::log(base));
  return base == 0 ? where(greater_equal(v.b, 0), 0, slope) : slope;
}

// The operands' shares of the gradient count as constants: they do not change between steps.
NDArray by_share(const char* kernel, const NDArray& g, const Operand& first, const Operand& second) {
  return multiply(g, push_binary(kernel, first, second, {g.dtype(), g.dtype()}));
}

}  // namespace

// clang-format off
#define HEDDLE_ARITHMETIC(X) \
  X(add, a, b, arithmetic, binary_word_kernel<Add>, HEDDLE_GRADIENTS(nothing, g, nothing, g), \
    "a + b", -4, 4, "a + b; of bools, or.") \
  X(subtract, a, b, no_bool, binary_word_kernel<Subtract>, HEDDLE_GRADIENTS(nothing, g, nothing, -g), \
    "a - b", -4, 4, "a - b.") \
  X(multiply, a, b, arithmetic, binary_word_kernel<Multiply>, HEDDLE_GRADIENTS(b, g * b, a, g * a), \
    "a * b", -4, 4, "a * b; of bools, and.") \
  X(divide, a, b, floating, binary_floating_kernel<Divide>, HEDDLE_GRADIENTS(b, g / b, by, -(g * y / b)), \
    "a / b", 0.1, 4, "a / b, in floating point.") \
  X(power, base, exponent, power, power_kernel, \
    HEDDLE_GRADIENTS(ab, power_base(values), aby, power_exponent(values)), \
    "base ** exponent", 0, 4, "base to the power of exponent. A negative exponent of integers is an error.") \
  X(maximum, a, b, arithmetic, binary_kernel<Maximum>, \
    HEDDLE_GRADIENTS(ab, by_share("larger_share", g, a, b), ab, by_share("larger_share", g, b, a)), \
    "np.maximum(a, b)", -4, 4, "The larger of both; NaN if either is.") \
  X(minimum, a, b, arithmetic, binary_kernel<Minimum>, \
    HEDDLE_GRADIENTS(ab, by_share("smaller_share", g, a, b), ab, by_share("smaller_share", g, b, a)), \
    "np.minimum(a, b)", -4, 4, "The smaller of both; NaN if either is.")
// clang-format on

HEDDLE_ARITHMETIC(HEDDLE_BINARY_FUNCTION)

HEDDLE_OPERATORS(arithmetic) {
  table.family("Elementwise");
  HEDDLE_ARITHMETIC(HEDDLE_BINARY_ENTRY)
}

namespace cpu_kernels {

HEDDLE_CPU_KERNELS(arithmetic) {
  HEDDLE_ARITHMETIC(HEDDLE_BINARY_KERNEL)
  table.add<BinaryKernel>("larger_share", DeviceKind::cpu, binary_floating_kernel<Share<std::greater<>>>);
  table.add<BinaryKernel>("smaller_share", DeviceKind::cpu, binary_floating_kernel<Share<std::less<>>>);
  table.add<BinaryKernel>("half_difference", DeviceKind::cpu, binary_floating_kernel<HalfDifference>);
}

}  // namespace cpu_kernels
}  // namespace heddle
