// Operators on each element, with NumPy's broadcasting and promotion of dtypes.
//
// Comparisons give bool; an integer beyond the range of an array's dtype is compared by its value. Arguments that no
// dtype of the operator fits, shapes that do not broadcast and arrays on several devices throw InvalidArgument at the
// call. Floating inputs get gradients.
#pragma once

#include <heddle/operand.h>

namespace heddle {

// At least one of the two operands is an array. divide gives f64 for integers; add of bools
// is "or", multiply is "and"; subtract refuses bools. power of integers wraps around; a negative integer
// exponent throws at the call if it is a number, and is an op error if it is in an array.
NDArray add(const Operand& a, const Operand& b, Where where = Where::current());
NDArray subtract(const Operand& a, const Operand& b, Where where = Where::current());
NDArray multiply(const Operand& a, const Operand& b, Where where = Where::current());
NDArray divide(const Operand& a, const Operand& b, Where where = Where::current());
NDArray power(const Operand& base, const Operand& exponent, Where where = Where::current());
// power(base, exponent) for arguments of any type; at least one of them is an array.
template <class Base, class Exponent>
requires AnyArray<Base, Exponent> NDArray pow(const Base& base, const Exponent& exponent,
                                              Where where = Where::current()) {
  return power(base, exponent, where);
}
// NaN if either operand is NaN. Equal operands get half of the gradient each.
NDArray maximum(const Operand& a, const Operand& b, Where where = Where::current());
NDArray minimum(const Operand& a, const Operand& b, Where where = Where::current());

NDArray negative(const NDArray& x, Where where = Where::current());
NDArray abs(const NDArray& x, Where where = Where::current());     // gradient 0 at 0, NaN at NaN
NDArray square(const NDArray& x, Where where = Where::current());  // x * x
// max(x, 0), NaN for NaN; gradient 0 at 0, 1 at NaN.
NDArray relu(const NDArray& x, Where where = Where::current());

// The functions from exp() to sigmoid() compute in floating point: f64 for an integer or bool x.
NDArray exp(const NDArray& x, Where where = Where::current());
NDArray log(const NDArray& x, Where where = Where::current());  // the natural logarithm
NDArray sqrt(const NDArray& x, Where where = Where::current());
NDArray tanh(const NDArray& x, Where where = Where::current());
NDArray sigmoid(const NDArray& x, Where where = Where::current());  // 1 / (1 + exp(-x))

// low where x < low, high where x > high, NaN for NaN. The gradient is 0 where x was changed. Throws for a
// NaN bound.
NDArray clip(const NDArray& x, Scalar low, Scalar high, Where where = Where::current());

NDArray equal(const Operand& a, const Operand& b, Where where = Where::current());
NDArray not_equal(const Operand& a, const Operand& b, Where where = Where::current());
NDArray less(const Operand& a, const Operand& b, Where where = Where::current());
NDArray less_equal(const Operand& a, const Operand& b, Where where = Where::current());
NDArray greater(const Operand& a, const Operand& b, Where where = Where::current());
NDArray greater_equal(const Operand& a, const Operand& b, Where where = Where::current());
NDArray logical_not(const NDArray& x, Where where = Where::current());  // x == 0, as bool

// a where condition (bool) is true, else b; all three broadcast.
NDArray where(const NDArray& condition, const Operand& a, const Operand& b, Where at = Where::current());

inline NDArray operator+(const Operand& a, const Operand& b) { return add(a, b, a.where); }
inline NDArray operator-(const Operand& a, const Operand& b) { return subtract(a, b, a.where); }
inline NDArray operator*(const Operand& a, const Operand& b) { return multiply(a, b, a.where); }
inline NDArray operator/(const Operand& a, const Operand& b) { return divide(a, b, a.where); }
inline NDArray operator-(const ArrayArgument& x) { return negative(x.array, x.where); }
inline NDArray operator<(const Operand& a, const Operand& b) { return less(a, b, a.where); }
inline NDArray operator<=(const Operand& a, const Operand& b) { return less_equal(a, b, a.where); }
inline NDArray operator>(const Operand& a, const Operand& b) { return greater(a, b, a.where); }
inline NDArray operator>=(const Operand& a, const Operand& b) { return greater_equal(a, b, a.where); }

// The result is written into x's own memory, so that views of x see it. b is broadcast to x. Throws
// InvalidArgument if the result's kind does not fit x's dtype (i32 += 0.5), and Error where a gradient would
// be recorded.
const NDArray& operator+=(const NDArray& x, const Operand& b);
const NDArray& operator-=(const NDArray& x, const Operand& b);
const NDArray& operator*=(const NDArray& x, const Operand& b);
const NDArray& operator/=(const NDArray& x, const Operand& b);

}  // namespace heddle
