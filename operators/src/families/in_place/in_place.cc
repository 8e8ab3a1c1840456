// Operators that change an array in place: x += b, and by name add_.
#include "families/in_place/in_place.h"

#include <string>
#include <variant>

#include <heddle/autograd.h>
#include <heddle/elementwise_math.h>

#include "core/operator.h"
#include "core/operator_table.h"
#include "families/elementwise/elementwise_rule.h"

namespace heddle {
namespace operators_detail {

void check_target(const char* op, const NDArray& x) {
  if (!x.overlaps_itself()) return;
  throw InvalidArgument(std::string(op) + ": elements of a view of shape " + x.shape().to_string() +
                        " with strides " + x.strides().to_string() + " share memory");
}

void check_result_fits(const char* op, DType result, const NDArray& x) {
  if (kind_order(result) <= kind_order(x.dtype())) return;
  throw InvalidArgument(std::string(op) + ": a result of dtype " + name_of(result) + " does not fit " +
                        name_of(x.dtype()));
}

void refuse_recording(const char* op) {
  throw InvalidArgument(
      std::string(op) +
      ": an array requires a gradient, and the tape does not follow changes in place; make a new "
      "array, detach() it or use NoGrad");
}

bool same_view(const NDArray& a, const NDArray& b) {
  return a.shape() == b.shape() && a.strides() == b.strides() && a.offset() == b.offset();
}

}  // namespace operators_detail

using namespace operators_detail;

namespace {

void check_update(const char* op, const NDArray& x, const Operand& b, DType result) {
  if (recording({&x, &b.array})) refuse_recording(op);
  check_target(op, x);
  if (binary_shape(op, x, b) != x.shape()) {
    throw InvalidArgument(std::string(op) + ": an operand of shape " + b.array.shape().to_string() +
                          " does not broadcast to a target of shape " + x.shape().to_string());
  }
  check_result_fits(op, result, x);
}

// `name` is the operator's name in errors, which is add_ for x += b; `op` is the operator whose kernel
// computes.
const NDArray& update(const char* name, const char* op, Family family, const NDArray& x, const Operand& b) {
  const CallSite site(b.where);
  const Dtypes dtypes = binary_dtypes(name, family, x, b);
  check_update(name, x, b, dtypes.result);
  if (dtypes.result != x.dtype()) {
    x.assign(push_binary(op, x, b, dtypes));
    return x;
  }
  // b is copied if it is a shifted view of x, of which parts would be overwritten before they are read.
  const bool overlaps = b.is_array && b.array.storage() == x.storage() && !same_view(x, b.array);
  push_binary_into(op, x, overlaps ? b.array.copy() : b, dtypes.compute, x);
  return x;
}

}  // namespace

const NDArray& operator+=(const NDArray& x, const Operand& b) {
  return update("add_", "add", Family::arithmetic, x, b);
}
const NDArray& operator-=(const NDArray& x, const Operand& b) {
  return update("subtract_", "subtract", Family::no_bool, x, b);
}
const NDArray& operator*=(const NDArray& x, const Operand& b) {
  return update("multiply_", "multiply", Family::arithmetic, x, b);
}
const NDArray& operator/=(const NDArray& x, const Operand& b) {
  return update("divide_", "divide", Family::floating, x, b);
}
const NDArray& operator%=(const NDArray& x, const Operand& b) {
  return update("remainder_", "remainder", Family::no_bool, x, b);
}
const NDArray& operator&=(const NDArray& x, const Operand& b) {
  return update("bitwise_and_", "bitwise_and", Family::bits, x, b);
}
const NDArray& operator|=(const NDArray& x, const Operand& b) {
  return update("bitwise_or_", "bitwise_or", Family::bits, x, b);
}
const NDArray& operator^=(const NDArray& x, const Operand& b) {
  return update("bitwise_xor_", "bitwise_xor", Family::bits, x, b);
}
const NDArray& operator<<=(const NDArray& x, const Operand& b) {
  return update("bitwise_left_shift_", "bitwise_left_shift", Family::integers, x, b);
}
const NDArray& operator>>=(const NDArray& x, const Operand& b) {
  return update("bitwise_right_shift_", "bitwise_right_shift", Family::integers, x, b);
}
const NDArray& floor_divide_(const NDArray& x, const Operand& b) {
  return update("floor_divide_", "floor_divide", Family::no_bool, x, b);
}
const NDArray& power_(const NDArray& x, const Operand& exponent) {
  const CallSite site(exponent.where);
  check_exponent("power_", binary_dtypes("power_", Family::no_bool, x, exponent).compute, exponent);
  return update("power_", "power", Family::no_bool, x, exponent);
}

// The lambdas take the array by value: the copy of a handle is the same array.
HEDDLE_OPERATORS(in_place) {
  table.family("In place");
  const auto add = [&](const char* name, const char* text, auto* function, DTypes dtypes) {
    table.add(name, function,
              {.documentation =
                   std::string(text) + " b is broadcast to x; the result's kind has to fit the dtype of x.",
               .arguments = {{"x", dtypes}, "b"}});
  };
  add(
      "add_", "x += b.", +[](NDArray x, const Operand& b, Where) { x += b; }, DTypes::all);
  add(
      "subtract_", "x -= b.", +[](NDArray x, const Operand& b, Where) { x -= b; }, DTypes::no_bool);
  add(
      "multiply_", "x *= b.", +[](NDArray x, const Operand& b, Where) { x *= b; }, DTypes::all);
  add(
      "divide_", "x /= b.", +[](NDArray x, const Operand& b, Where) { x /= b; }, DTypes::floating);
  add(
      "floor_divide_", "x = floor_divide(x, b).",
      +[](NDArray x, const Operand& b, Where) { floor_divide_(x, b); }, DTypes::no_bool);
  add(
      "remainder_", "x %= b.", +[](NDArray x, const Operand& b, Where) { x %= b; }, DTypes::no_bool);
  add(
      "power_", "x = power(x, b).", +[](NDArray x, const Operand& b, Where) { power_(x, b); },
      DTypes::no_bool);
  add(
      "bitwise_and_", "x &= b.", +[](NDArray x, const Operand& b, Where) { x &= b; }, DTypes::bits);
  add(
      "bitwise_or_", "x |= b.", +[](NDArray x, const Operand& b, Where) { x |= b; }, DTypes::bits);
  add(
      "bitwise_xor_", "x ^= b.", +[](NDArray x, const Operand& b, Where) { x ^= b; }, DTypes::bits);
  add(
      "bitwise_left_shift_", "x <<= b.", +[](NDArray x, const Operand& b, Where) { x <<= b; },
      DTypes::integers);
  add(
      "bitwise_right_shift_", "x >>= b.", +[](NDArray x, const Operand& b, Where) { x >>= b; },
      DTypes::integers);
  table.add("assign_", +[](const NDArray& x, const NDArray& source, Where where) { x.assign(source, where); },
            {.documentation = "Copies the values of source, broadcast and converted, into x.",
             .arguments = {"x", "source"}});
  table.add(
      "fill_", +[](const NDArray& x, Scalar value, Where where) { x.fill(value, where); },
      {.documentation = "Sets every element of x to value, which saturates at the ends of an integer dtype.",
       .arguments = {"x", "value"}});
}

}  // namespace heddle
