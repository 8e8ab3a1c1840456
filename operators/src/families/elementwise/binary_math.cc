// Remainders, bits, and functions of two floating numbers: a row for each operator.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <type_traits>

#include <heddle/elementwise_math.h>

#include "families/elementwise/cpu/vector_library.h"
#include "families/elementwise/rows.h"

namespace heddle::cpu_kernels {

namespace {

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

// The quotient of integers: 0 for a divisor of 0, as in NumPy; the smallest number over -1 wraps around.
template <class T> T truncated_quotient(T a, T b) {
  if (b == T{0}) return T{0};
  if constexpr (std::is_signed_v<T>) {
    if (b == T{-1}) return static_cast<T>(0 - static_cast<Wrapping<T>>(a));
  }
  return static_cast<T>(a / b);
}
template <class T> T truncated_remainder(T a, T b) {
  if (b == T{0}) return T{0};
  if constexpr (std::is_signed_v<T>) {
    if (b == T{-1}) return T{0};
  }
  return static_cast<T>(a % b);
}
template <class T> bool rounds_up(T rest, T b) { return rest != T{0} && (rest < T{0}) != (b < T{0}); }

// Python's divmod: the quotient follows from the remainder, which is exact.
template <class T> T floor_remainder(T a, T b) {
  const T rest = std::fmod(a, b);
  if (rounds_up(rest, b)) return rest + b;
  return rest == 0 ? std::copysign(T{0}, b) : rest;
}
template <class T> T floor_quotient(T a, T b) {
  if (b == 0) return a / b;
  const T rest = std::fmod(a, b);
  T quotient = (a - rest) / b;
  if (rounds_up(rest, b)) quotient -= 1;
  if (quotient == 0) return std::copysign(T{0}, a / b);
  const T whole = std::floor(quotient);
  return quotient - whole > T{0.5} ? whole + 1 : whole;
}

struct FloorDivide {
  template <class T> T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return floor_quotient(a, b);
    } else {
      const T quotient = truncated_quotient(a, b);
      return rounds_up(truncated_remainder(a, b), b) ? static_cast<T>(quotient - 1) : quotient;
    }
  }
};
struct Remainder {
  template <class T> T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return floor_remainder(a, b);
    } else {
      const T rest = truncated_remainder(a, b);
      return rounds_up(rest, b) ? static_cast<T>(rest + b) : rest;
    }
  }
};
struct Fmod {
  template <class T> T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::fmod(a, b);
    else
      return truncated_remainder(a, b);
  }
};

struct Copysign {
  template <class T> T operator()(T a, T b) const { return std::copysign(a, b); }
};
struct Nextafter {
  template <class T> T operator()(T a, T b) const { return std::nextafter(a, b); }
};
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

struct And {
  template <class T> T operator()(T a, T b) const { return static_cast<T>(a & b); }
};
struct Or {
  template <class T> T operator()(T a, T b) const { return static_cast<T>(a | b); }
};
struct Xor {
  template <class T> T operator()(T a, T b) const { return static_cast<T>(a ^ b); }
};

template <class T> constexpr int kWidth = static_cast<int>(8 * sizeof(T));
template <class T> bool keeps_bits(T by) { return by >= T{0} && by < static_cast<T>(kWidth<T>); }
struct LeftShift {
  template <class T> T operator()(T a, T by) const {
    return keeps_bits(by) ? static_cast<T>(static_cast<Wrapping<T>>(a) << by) : T{0};
  }
};
struct RightShift {
  template <class T> T operator()(T a, T by) const {
    return static_cast<T>(a >> (keeps_bits(by) ? static_cast<int>(by) : kWidth<T> - 1) >> !keeps_bits(by));
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
