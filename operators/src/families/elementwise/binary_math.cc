// Remainders, bits, and functions of two floating numbers: a row for each operator.
#include <bit>
#include <cstdint>
#include <numbers>
#include <type_traits>

#include <heddle/elementwise_math.h>

#include "families/elementwise/binary_functors.h"
#include "families/elementwise/cpu/vector_library.h"
#include "families/elementwise/rows.h"

namespace heddle::cpu_kernels {

namespace {

using namespace functors;

HEDDLE_VECTOR_FUNCTION(exp)
HEDDLE_VECTOR_FUNCTION(log1p)
HEDDLE_VECTOR_FUNCTION_OF_TWO(atan2)
HEDDLE_VECTOR_FUNCTION_OF_TWO(hypot)

// The kernels of operators on bits, for integers and bools. bits_kernel: for operators to which the sign
// makes no difference.
template <class F>
void bits_kernel(const KernelContext&, const Operand& a, const Operand& b, const NDArray& y) {
  visit_word(y.dtype(), [&]<class T> {
    if constexpr (std::is_integral_v<T>) map_binary<T, T>(a, b, y, F{});
  });
}
template <class F>
void integer_kernel(const KernelContext&, const Operand& a, const Operand& b, const NDArray& y) {
  visit_number(y.dtype(), [&]<class T> {
    if constexpr (std::is_integral_v<T>) map_binary<T, T>(a, b, y, F{});
  });
}

// nextafter for a half type; a and b are its values, as f32.
template <class Half> struct NextHalf {
  float operator()(float a, float b) const {
    if (a != a || b != b) return a + b;
    if (a == b) return b;
    auto bits = std::bit_cast<std::uint16_t>(static_cast<Half>(a));
    if (a == 0) {
      bits = b < 0 ? 0x8001 : 1;
    } else {
      bits = static_cast<std::uint16_t>((a < b) == (a > 0) ? bits + 1 : bits - 1);
    }
    return static_cast<float>(std::bit_cast<Half>(bits));
  }
};
void nextafter_kernel(const KernelContext& context, const Operand& a, const Operand& b, const NDArray& y) {
  if (y.dtype() == DType::f16) return map_half_binary<float>(a, b, y, NextHalf<Float16>{});
  if (y.dtype() == DType::bf16) return map_half_binary<float>(a, b, y, NextHalf<BFloat16>{});
  binary_floating_kernel<Nextafter>(context, a, b, y);
}
// For two equal infinities, whose difference is NaN, the result is a itself.
struct Logaddexp {
  template <class T> T operator()(T a, T b) const {
    const T larger = a > b || a != a ? a : b, smaller = a > b || a != a ? b : a;
    const T result = larger + Vector_log1p{}(Vector_exp{}(smaller - larger));
    return a == b ? a + static_cast<T>(std::numbers::ln2) : result;
  }
};

// Kernels of quotients, which bool does not have.
template <class F>
void quotient_kernel(const KernelContext&, const Operand& a, const Operand& b, const NDArray& y) {
  if (is_half(y.dtype())) return map_half_binary<float>(a, b, y, F{});
  visit_number(y.dtype(), [&]<class T> {
    if constexpr (!std::is_same_v<T, bool>) map_binary<T, T>(a, b, y, F{});
  });
}

}  // namespace
}  // namespace heddle::cpu_kernels

namespace heddle {

using namespace operators_detail;

namespace {

// Divides by the distance from the origin twice: its square may leave the range.
NDArray over_squares(const Operand& numerator, const Operand& a, const Operand& b) {
  const NDArray distance = hypot(a, b);
  return divide(numerator, distance) / distance;
}

// The share of a in the gradient of logaddexp. It is computed from the difference of the operands: if one is
// infinite, that is still a number, but the difference from the result is not. Two equal infinities share
// equally, as any equal numbers.
NDArray share_of_first(const Operand& a, const Operand& b) {
  const NDArray difference = subtract(a, b);
  return sigmoid(where(equal(a, b) && isnan(difference), 0, difference));
}

}  // namespace

// The gradient of copysign is g where the sign stayed, -g where it changed, 0 at 0.
// clang-format off
#define HEDDLE_BINARY_MATH(X) \
  X(floor_divide, a, b, no_bool, quotient_kernel<FloorDivide>, \
    HEDDLE_GRADIENTS(nothing, no_change(g), nothing, no_change(g)), \
    "np.floor_divide(a, b)", -9, 9, "a / b, rounded down. Integers divided by 0 give 0.") \
  X(remainder, a, b, no_bool, quotient_kernel<Remainder>, \
    HEDDLE_GRADIENTS(nothing, g, ab, -(g * floor_divide(a, b))), \
    "np.remainder(a, b)", -9, 9, "a - floor_divide(a, b) * b: it has the sign of b.") \
  X(fmod, a, b, no_bool, quotient_kernel<Fmod>, HEDDLE_GRADIENTS(nothing, g, ab, -(g * trunc(divide(a, b)))), \
    "np.fmod(a, b)", -9, 9, "The remainder that has the sign of a.") \
  X(atan2, y, x, floating, binary_block_kernel<Vector_atan2>, \
    HEDDLE_GRADIENTS(ab, g * over_squares(b, a, b), ab, -(g * over_squares(a, a, b))), \
    "np.arctan2(y, x)", -4, 4, "The angle of the point (x, y).") \
  X(hypot, a, b, floating, binary_block_kernel<Vector_hypot>, \
    HEDDLE_GRADIENTS(ay, g * divide(a, y), by, g * divide(b, y)), \
    "np.hypot(a, b)", -4, 4, "sqrt(a * a + b * b), without overflow.") \
  X(logaddexp, a, b, floating, binary_block_kernel<Logaddexp>, \
    HEDDLE_GRADIENTS(ab, g * share_of_first(a, b), ab, g * share_of_first(b, a)), \
    "np.logaddexp(a, b)", -4, 4, "log(exp(a) + exp(b)), without overflow.") \
  X(copysign, a, b, floating, binary_floating_kernel<Copysign>, \
    HEDDLE_GRADIENTS(ay, g * sign(a.array) * sign(y), nothing, no_change(g)), \
    "np.copysign(a, b)", -4, 4, "a with the sign of b.") \
  X(nextafter, a, b, floating, nextafter_kernel, HEDDLE_NO_GRADIENT, \
    "np.nextafter(a, b)", -4, 4, "The next number after a, towards b.") \
  X(bitwise_and, a, b, bits, bits_kernel<And>, HEDDLE_NO_GRADIENT, \
    "np.bitwise_and(a, b)", -9, 9, "a & b.") \
  X(bitwise_or, a, b, bits, bits_kernel<Or>, HEDDLE_NO_GRADIENT, \
    "np.bitwise_or(a, b)", -9, 9, "a | b.") \
  X(bitwise_xor, a, b, bits, bits_kernel<Xor>, HEDDLE_NO_GRADIENT, \
    "np.bitwise_xor(a, b)", -9, 9, "a ^ b.") \
  X(bitwise_left_shift, a, b, integers, integer_kernel<LeftShift>, HEDDLE_NO_GRADIENT, \
    "np.left_shift(a, b)", 0, 9, "a << b. All bits go if b is negative or the width.") \
  X(bitwise_right_shift, a, b, integers, integer_kernel<RightShift>, HEDDLE_NO_GRADIENT, \
    "np.right_shift(a, b)", 0, 9, "a >> b. All bits go if b is negative or the width.")
// clang-format on

HEDDLE_BINARY_MATH(HEDDLE_BINARY_FUNCTION)

HEDDLE_OPERATORS(binary_math) {
  table.family("Elementwise mathematics");
  HEDDLE_BINARY_MATH(HEDDLE_BINARY_ENTRY)
}

namespace cpu_kernels {

HEDDLE_CPU_KERNELS(binary_math) { HEDDLE_BINARY_MATH(HEDDLE_BINARY_KERNEL) }

}  // namespace cpu_kernels
}  // namespace heddle
