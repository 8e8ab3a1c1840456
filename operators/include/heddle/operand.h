// The arguments of operators that take an array or a number.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include <heddle/ndarray.h>

namespace heddle {

// A number beside arrays. It takes the array's dtype where its kind allows (NumPy's weak scalars): f32 * 2.5 is f32,
// i32 * 2 is i32, but i32 * 2.5 is f64, bool + 1 is i64 and bool + true is bool. An integer above an int64 goes with
// u64 and floating dtypes alone.
class Scalar {
 public:
  template <std::integral T>
  Scalar(T value)
      : integer_(static_cast<std::int64_t>(value)),
        kind_(std::is_same_v<T, bool> ? Kind::boolean : Kind::integer) {
    if (std::is_unsigned_v<T> && integer_ < 0) kind_ = Kind::huge;
  }
  template <std::floating_point T> Scalar(T value) : real_(static_cast<double>(value)), kind_(Kind::real) {}

  bool is_boolean() const { return kind_ == Kind::boolean; }
  bool is_integral() const { return kind_ <= Kind::integer; }  // a bool is, an integer above an int64 is not
  bool is_huge() const { return kind_ == Kind::huge; }         // an integer above an int64
  double real() const {
    if (is_huge()) return static_cast<double>(static_cast<std::uint64_t>(integer_));
    return is_integral() ? static_cast<double>(integer_) : real_;
  }
  // Integers keep their low bits; a real as an integer is truncated, as docs/dtypes.md says.
  template <class T> T as() const {
    if (is_integral()) return static_cast<T>(integer_);
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      if (is_huge()) return static_cast<T>(integer_);
    }
    if constexpr (std::is_integral_v<T>) {
      return ndarray_detail::saturate<T>(real());
    } else {
      return static_cast<T>(real());
    }
  }

 private:
  union {
    std::int64_t integer_;
    double real_;
  };  // of a huge one the bits of a uint64
  enum class Kind : std::uint8_t { boolean, integer, huge, real } kind_;
};

namespace operators_detail {
// Sets every element of x to the number, with all its digits where x has integers.
inline void fill_with(const NDArray& x, Scalar value, Where where = Where::current()) {
  if (value.is_huge()) return x.fill(value.as<std::uint64_t>(), where);
  value.is_integral() ? x.fill(value.as<std::int64_t>(), where) : x.fill(value.real(), where);
}
}  // namespace operators_detail

// An array or a number: the argument of operators that take either. `where` is the line of the call, for infix
// operators.
struct Operand {
  template <class T>
  requires std::is_arithmetic_v<T> Operand(T value, Where at = Where::current()) : scalar(value), where(at) {}
  Operand(Scalar value, Where at = Where::current()) : scalar(value), where(at) {}
  Operand(const NDArray& value, Where at = Where::current())
      : array(value), scalar(0), where(at), is_array(true) {}
  // x[mask], x[indices]
  template <class T>
  requires std::is_same_v<T, Chosen> Operand(const T& value, Where at = Where::current())
      : Operand(NDArray(value), at) {}

  NDArray array;
  Scalar scalar;
  Where where;
  bool is_array = false;
};

}  // namespace heddle
