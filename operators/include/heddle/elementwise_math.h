// More operators on each element: powers and logarithms, trigonometry, rounding, remainders, bits, classes of numbers.
//
// Broadcasting, dtypes and errors are those of elementwise.h. "In floating point" means f64 for an integer or bool x.
// Results of floating functions are within 4 units in the last place. Floating inputs get gradients; those of functions
// that are constant between their steps are 0.
#pragma once

#include <concepts>
#include <optional>

#include <heddle/elementwise.h>

namespace heddle {

// The functions from exp2() to digamma() compute in floating point.
NDArray exp2(const NDArray& x, Where where = Where::current());
NDArray expm1(const NDArray& x, Where where = Where::current());  // exp(x) - 1, exact near 0
NDArray log1p(const NDArray& x, Where where = Where::current());  // log(1 + x), exact near 0
NDArray log2(const NDArray& x, Where where = Where::current());
NDArray log10(const NDArray& x, Where where = Where::current());
NDArray rsqrt(const NDArray& x, Where where = Where::current());  // 1 / sqrt(x)
NDArray cbrt(const NDArray& x, Where where = Where::current());
NDArray reciprocal(const NDArray& x, Where where = Where::current());
NDArray sin(const NDArray& x, Where where = Where::current());
NDArray cos(const NDArray& x, Where where = Where::current());
NDArray tan(const NDArray& x, Where where = Where::current());
NDArray asin(const NDArray& x, Where where = Where::current());
NDArray acos(const NDArray& x, Where where = Where::current());
NDArray atan(const NDArray& x, Where where = Where::current());
NDArray sinh(const NDArray& x, Where where = Where::current());
NDArray cosh(const NDArray& x, Where where = Where::current());
NDArray asinh(const NDArray& x, Where where = Where::current());
NDArray acosh(const NDArray& x, Where where = Where::current());
NDArray atanh(const NDArray& x, Where where = Where::current());
NDArray erf(const NDArray& x, Where where = Where::current());
NDArray erfc(const NDArray& x, Where where = Where::current());    // 1 - erf(x), exact for large x
NDArray lgamma(const NDArray& x, Where where = Where::current());  // log(|gamma(x)|)
// The derivative of lgamma; NaN at its poles, -inf at 0.
NDArray digamma(const NDArray& x, Where where = Where::current());

// The functions from floor() to sign() return x's dtype; integers are unchanged. round takes halves to the
// even neighbour.
NDArray floor(const NDArray& x, Where where = Where::current());
NDArray ceil(const NDArray& x, Where where = Where::current());
NDArray round(const NDArray& x, Where where = Where::current());
NDArray trunc(const NDArray& x, Where where = Where::current());
NDArray sign(const NDArray& x, Where where = Where::current());  // -1, 0 or 1; NaN for NaN

// The functions from isnan() to signbit() return bools.
NDArray isnan(const NDArray& x, Where where = Where::current());
NDArray isinf(const NDArray& x, Where where = Where::current());
NDArray isfinite(const NDArray& x, Where where = Where::current());
NDArray signbit(const NDArray& x, Where where = Where::current());  // true for -0.0 too

// x with NaN and the infinities replaced; the infinities by default by the dtype's largest and smallest
// number.
NDArray nan_to_num(const NDArray& x, double nan = 0, std::optional<double> posinf = {},
                   std::optional<double> neginf = {}, Where where = Where::current());

// At least one of the two operands is an array. floor_divide rounds down, and remainder has the
// divisor's sign, as in Python; fmod has the dividend's, as in C. Integers divided by 0 give 0. bool is
// refused.
NDArray floor_divide(const Operand& a, const Operand& b, Where where = Where::current());
NDArray remainder(const Operand& a, const Operand& b, Where where = Where::current());
NDArray fmod(const Operand& a, const Operand& b, Where where = Where::current());

// The functions from atan2() to nextafter() compute in floating point.
NDArray atan2(const Operand& y, const Operand& x, Where where = Where::current());
NDArray hypot(const Operand& a, const Operand& b, Where where = Where::current());
// log(exp(a) + exp(b)).
NDArray logaddexp(const Operand& a, const Operand& b, Where where = Where::current());
NDArray copysign(const Operand& a, const Operand& b, Where where = Where::current());  // a with the sign of b
NDArray nextafter(const Operand& a, const Operand& towards, Where where = Where::current());  // no gradient

// The bitwise operators take integers and bools. A shift by the number of bits or more, or by a negative
// number, shifts all bits out.
NDArray bitwise_and(const Operand& a, const Operand& b, Where where = Where::current());
NDArray bitwise_or(const Operand& a, const Operand& b, Where where = Where::current());
NDArray bitwise_xor(const Operand& a, const Operand& b, Where where = Where::current());
NDArray bitwise_invert(const NDArray& x, Where where = Where::current());
NDArray bitwise_left_shift(const Operand& a, const Operand& b, Where where = Where::current());
NDArray bitwise_right_shift(const Operand& a, const Operand& b, Where where = Where::current());

// The logical operators give bool for any dtype: nonzero is true.
NDArray logical_and(const Operand& a, const Operand& b, Where where = Where::current());
NDArray logical_or(const Operand& a, const Operand& b, Where where = Where::current());
NDArray logical_xor(const Operand& a, const Operand& b, Where where = Where::current());

inline NDArray operator%(const Operand& a, const Operand& b) { return remainder(a, b, a.where); }
inline NDArray operator&(const Operand& a, const Operand& b) { return bitwise_and(a, b, a.where); }
inline NDArray operator|(const Operand& a, const Operand& b) { return bitwise_or(a, b, a.where); }
inline NDArray operator^(const Operand& a, const Operand& b) { return bitwise_xor(a, b, a.where); }
inline NDArray operator<<(const NDArray& a, const Operand& b) { return bitwise_left_shift(a, b, b.where); }
inline NDArray operator>>(const NDArray& a, const Operand& b) { return bitwise_right_shift(a, b, b.where); }
inline NDArray operator~(const ArrayArgument& x) { return bitwise_invert(x.array, x.where); }
// Writes the result into x's own memory, as x += b does.
const NDArray& operator%=(const NDArray& x, const Operand& b);
const NDArray& operator&=(const NDArray& x, const Operand& b);
const NDArray& operator|=(const NDArray& x, const Operand& b);
const NDArray& operator^=(const NDArray& x, const Operand& b);
const NDArray& operator<<=(const NDArray& x, const Operand& b);
const NDArray& operator>>=(const NDArray& x, const Operand& b);
const NDArray& floor_divide_(const NDArray& x, const Operand& b);
const NDArray& power_(const NDArray& x, const Operand& exponent);
// Both operands of && and || are always computed. An array converts to bool, so these overloads have to match
// better than the built-in operators on bools. So !x, and && and || with a number, cannot take the call site
// as the others do: their errors do not name the line of the call, while those of logical_not(x) do.
inline NDArray operator!(const NDArray& x) { return logical_not(x, Where()); }
inline NDArray operator&&(const Operand& a, const Operand& b) { return logical_and(a, b, a.where); }
inline NDArray operator||(const Operand& a, const Operand& b) { return logical_or(a, b, a.where); }
template <std::same_as<NDArray> X> NDArray operator&&(const X& a, const ArrayArgument& b) {
  return logical_and(a, b.array, b.where);
}
template <std::same_as<NDArray> X> NDArray operator||(const X& a, const ArrayArgument& b) {
  return logical_or(a, b.array, b.where);
}
template <std::same_as<NDArray> X, operators_detail::Number T> NDArray operator&&(const X& a, const T& b) {
  return logical_and(a, b, Where());
}
template <std::same_as<NDArray> X, operators_detail::Number T> NDArray operator||(const X& a, const T& b) {
  return logical_or(a, b, Where());
}
// These overloads take no bool as first operand, so that && stays a condition of the program: if (n > 0 &&
// x[n - 1] > 0) looks at x only if n > 0.
template <operators_detail::Number T, std::same_as<NDArray> X>
requires(!std::same_as<T, bool>) NDArray operator&&(const T& a, const X& b) {
  return logical_and(a, b, Where());
}
template <operators_detail::Number T, std::same_as<NDArray> X>
requires(!std::same_as<T, bool>) NDArray operator||(const T& a, const X& b) {
  return logical_or(a, b, Where());
}
inline NDArray operator==(const Operand& a, const Operand& b) { return equal(a, b, a.where); }
inline NDArray operator!=(const Operand& a, const Operand& b) { return not_equal(a, b, a.where); }

}  // namespace heddle
