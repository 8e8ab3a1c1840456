// Operators on each element, with NumPy's broadcasting and promotion of dtypes.
//
// Comparisons give bool; an integer beyond the range of an array's dtype is compared by its value. Arguments that no
// dtype of the operator fits, shapes that do not broadcast and arrays on several devices throw InvalidArgument at the
// call. Floating inputs get gradients.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <heddle/ndarray.h>

namespace heddle {

// A number beside arrays. It takes the array's dtype where its kind allows (NumPy's weak scalars): f32 * 2.5 is f32,
// i32 * 2 is i32, but i32 * 2.5 is f64, bool + 1 is i64 and bool + true is bool. An integer above an int64 is a real.
class Scalar {
 public:
  template <std::integral T>
  Scalar(T value)
      : integer_(static_cast<std::int64_t>(value)),
        kind_(std::is_same_v<T, bool> ? Kind::boolean : Kind::integer) {
    if (!std::is_unsigned_v<T> || integer_ >= 0) return;
    *this = Scalar(static_cast<double>(value));
    kind_ = Kind::huge;
  }
  template <std::floating_point T> Scalar(T value) : real_(static_cast<double>(value)), kind_(Kind::real) {}

  bool is_boolean() const { return kind_ == Kind::boolean; }
  bool is_integral() const { return kind_ <= Kind::integer; }  // a bool is, an integer above an int64 is not
  bool is_huge() const { return kind_ == Kind::huge; }         // an integer above an int64
  double real() const { return is_integral() ? static_cast<double>(integer_) : real_; }
  // Integers keep their low bits; a real as an integer is truncated, as docs/dtypes.md says.
  template <class T> T as() const {
    if (is_integral()) return static_cast<T>(integer_);
    if constexpr (std::is_integral_v<T>) {
      return ndarray_detail::saturate<T>(real_);
    } else {
      return static_cast<T>(real_);
    }
  }

 private:
  union {
    std::int64_t integer_;
    double real_;
  };
  enum class Kind : std::uint8_t { boolean, integer, huge, real } kind_;
};

// An array or a number: the argument of operators that take either. `where` is the line of the call, for infix
// operators.
struct Operand {
  template <class T>
  requires std::is_arithmetic_v<T> Operand(T value, Where at = Where::current()) : scalar(value), where(at) {}
  Operand(Scalar value, Where at = Where::current()) : scalar(value), where(at) {}
  Operand(const NDArray& value, Where at = Where::current())
      : array(value), scalar(0), where(at), is_array(true) {}

  NDArray array;
  Scalar scalar;
  Where where;
  bool is_array = false;
};

// Two operands, one of them an array. divide gives f64 for integers; add of bools is or, multiply is and; subtract
// refuses bools. power of integers wraps around; a negative integer exponent throws at the call if it is a number, and
// is an error of the op if it is in an array.
NDArray add(const Operand& a, const Operand& b, Where where = Where::current());
NDArray subtract(const Operand& a, const Operand& b, Where where = Where::current());
NDArray multiply(const Operand& a, const Operand& b, Where where = Where::current());
NDArray divide(const Operand& a, const Operand& b, Where where = Where::current());
NDArray power(const Operand& base, const Operand& exponent, Where where = Where::current());
// NaN if either operand is. Where they are equal, each gets half of the gradient.
NDArray maximum(const Operand& a, const Operand& b, Where where = Where::current());
NDArray minimum(const Operand& a, const Operand& b, Where where = Where::current());

NDArray negative(const NDArray& x, Where where = Where::current());
NDArray abs(const NDArray& x, Where where = Where::current());     // gradient 0 at 0, NaN at NaN
NDArray square(const NDArray& x, Where where = Where::current());  // x * x
// max(x, 0), NaN of NaN; gradient 0 at 0, 1 at NaN.
NDArray relu(const NDArray& x, Where where = Where::current());

// In floating point: f64 for an integer or bool x.
NDArray exp(const NDArray& x, Where where = Where::current());
NDArray log(const NDArray& x, Where where = Where::current());  // natural
NDArray sqrt(const NDArray& x, Where where = Where::current());
NDArray tanh(const NDArray& x, Where where = Where::current());
NDArray sigmoid(const NDArray& x, Where where = Where::current());  // 1 / (1 + exp(-x))

// low where x < low, high where x > high, NaN of NaN. The gradient is 0 where x was changed. Throws for a NaN bound.
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

// In place: written into x's own memory, so that views of x see it. b is broadcast to x. Throws InvalidArgument if
// the result's kind does not fit x's dtype (i32 += 0.5), and Error where a gradient would be recorded.
NDArray& operator+=(NDArray& x, const Operand& b);
NDArray& operator-=(NDArray& x, const Operand& b);
NDArray& operator*=(NDArray& x, const Operand& b);
NDArray& operator/=(NDArray& x, const Operand& b);

}  // namespace heddle
