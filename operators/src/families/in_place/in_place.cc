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

// `name` is the operator's name in errors, which is add_ for x += b.
const NDArray& update(const char* name, const Kernel<BinaryKernel>& kernel, Family family, const NDArray& x,
                      const Operand& b) {
  const CallSite site(b.where);
  const Dtypes dtypes = binary_dtypes(name, family, x, b);
  check_update(name, x, b, dtypes.result);
  if (dtypes.result != x.dtype()) {
    x.assign(push_binary(kernel, x, b, dtypes));
    return x;
  }
  // b is copied if it is another view of the memory of x: else parts of b would be overwritten before they
  // are read.
  const bool overlaps = b.is_array && b.array.storage() == x.storage() && !same_view(x, b.array);
  push_binary_into(kernel, x, overlaps ? b.array.copy() : b, dtypes.compute, x);
  return x;
}

}  // namespace

// A row: the name, without _, of the operator whose kernel computes; the function in C++; its Family; the dtypes
// that x may have, which the result has to fit; documentation.
// clang-format off
#define HEDDLE_UPDATES(X) \
  X(add, operator+=, arithmetic, all, "x += b.") \
  X(subtract, operator-=, no_bool, no_bool, "x -= b.") \
  X(multiply, operator*=, arithmetic, all, "x *= b.") \
  X(divide, operator/=, floating, floating, "x /= b.") \
  X(floor_divide, floor_divide_, no_bool, no_bool, "x = floor_divide(x, b).") \
  X(remainder, operator%=, no_bool, no_bool, "x %= b.") \
  X(power, power_, power, no_bool, "x = power(x, b).") \
  X(bitwise_and, operator&=, bits, bits, "x &= b.") \
  X(bitwise_or, operator|=, bits, bits, "x |= b.") \
  X(bitwise_xor, operator^=, bits, bits, "x ^= b.") \
  X(bitwise_left_shift, operator<<=, integers, integers, "x <<= b.") \
  X(bitwise_right_shift, operator>>=, integers, integers, "x >>= b.")
// clang-format on

#define HEDDLE_DEFINE(op, function, family, dtypes, text)       \
  const NDArray& function(const NDArray& x, const Operand& b) { \
    static const Kernel<BinaryKernel> kernel(#op);              \
    return update(#op "_", kernel, Family::family, x, b);       \
  }
HEDDLE_UPDATES(HEDDLE_DEFINE)
#undef HEDDLE_DEFINE

// The lambdas take the array by value: the copy of a handle is the same array.
HEDDLE_OPERATORS(in_place) {
  table.family("In place");
#define HEDDLE_REGISTER(op, function, family, accepted, text)                                            \
  table.add(#op "_", +[](NDArray x, const Operand& b, Where) { function(x, b); },                        \
            {.documentation = text " b is broadcast to x; the result's kind has to fit the dtype of x.", \
             .arguments = {{"x", DTypes::accepted}, "b"}});
  HEDDLE_UPDATES(HEDDLE_REGISTER)
#undef HEDDLE_REGISTER
  table.add("assign_", +[](const NDArray& x, const NDArray& source, Where where) { x.assign(source, where); },
            {.documentation = "Copies the values of source, broadcast and converted, into x.",
             .arguments = {"x", "source"}});
  table.add(
      "fill_", +[](const NDArray& x, Scalar value, Where where) { x.fill(value, where); },
      {.documentation = "Sets every element of x to value, which saturates at the ends of an integer dtype.",
       .arguments = {"x", "value"}});
}

}  // namespace heddle
