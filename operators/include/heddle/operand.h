// The arguments of operators that take an array or a number.
#pragma once

#include <cstdint>
#include <type_traits>

#include <heddle/ndarray.h>
#include <heddle/scalar.h>

namespace heddle {

// An array or a number: the argument of operators that take either. `where` is the line of the call, for infix
// operators.
struct Operand {
  template <class T>
  requires(std::is_arithmetic_v<T> || is_half_type<T>) Operand(T value, Where at = Where::current())
      : scalar(value), where(at) {}
  Operand(Scalar value, Where at = Where::current()) : scalar(value), where(at) {}
  Operand(const NDArray& value, Where at = Where::current())
      : array(value), scalar(0), where(at), is_array(true) {}
  // From x[mask] or x[indices], whose type is Chosen.
  template <class T>
  requires std::is_same_v<T, Chosen> Operand(const T& value, Where at = Where::current())
      : Operand(NDArray(value), at) {}

  NDArray array;
  Scalar scalar;
  Where where;
  bool is_array = false;
};

namespace operators_detail {
// The type of a number that may be an operand beside an array.
template <class T>
concept Number = std::is_convertible_v<const T&, Operand> && !AnyArray<T>;
}  // namespace operators_detail

}  // namespace heddle
