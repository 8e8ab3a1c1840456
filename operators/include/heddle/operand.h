// The arguments of operators that take an array or a number.
#pragma once

#include <cstdint>
#include <type_traits>

#include <heddle/ndarray.h>
#include <heddle/scalar.h>

namespace heddle {

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
  requires(std::is_arithmetic_v<T> || is_half_type<T>) Operand(T value, Where at = Where::current())
      : scalar(value), where(at) {}
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
