#include <limits>
#include <string>
#include <utility>

#include <heddle/elementwise_math.h>
#include <heddle/shape_ops.h>

#include "core/operator.h"
#include "core/operator_table.h"
#include "families/elementwise/elementwise_gradient.h"

namespace heddle {

using namespace operators_detail;

namespace {

double largest_finite(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 65504;
    case DType::bf16:
      return 0x1.fep127;
    case DType::f32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

}  // namespace

NDArray bitwise_invert(const NDArray& x, Where where) {
  const CallSite site(where);
  check_arrays("bitwise_invert", {&x});
  const DType dtype = unary_dtype("bitwise_invert", Family::bits, x.dtype());
  return push_unary("bitwise_invert", x, dtype, dtype);
}

NDArray nan_to_num(const NDArray& x, double nan, std::optional<double> posinf, std::optional<double> neginf,
                   Where where) {
  const CallSite site(where);
  check_arrays("nan_to_num", {&x});
  if (!is_floating(x.dtype())) return copy(x);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double largest = largest_finite(x.dtype());
  const NDArray finite = heddle::where(equal(x, kInfinity), posinf.value_or(largest),
                                       heddle::where(equal(x, -kInfinity), neginf.value_or(-largest), x));
  return heddle::where(isnan(x), nan, finite);
}

namespace {

// Divides by the distance from the origin twice: its square may leave the range.
NDArray over_squares(const BinaryValues& v, const Operand& numerator) {
  const NDArray distance = hypot(v.a, v.b);
  return v.gradient * (divide(numerator, distance) / distance);
}
NDArray whole(const BinaryValues& v) { return v.gradient; }
NDArray zero(const BinaryValues& v) { return no_change(v.gradient); }
NDArray minus_floor(const BinaryValues& v) { return -(v.gradient * floor_divide(v.a, v.b)); }
NDArray minus_trunc(const BinaryValues& v) { return -(v.gradient * trunc(divide(v.a, v.b))); }
NDArray atan2_of_y(const BinaryValues& v) { return over_squares(v, v.b); }
NDArray atan2_of_x(const BinaryValues& v) { return -over_squares(v, v.a); }
NDArray a_over_y(const BinaryValues& v) { return v.gradient * divide(v.a, v.y); }
NDArray b_over_y(const BinaryValues& v) { return v.gradient * divide(v.b, v.y); }
// The share is computed from the difference of the operands: if one is infinite, that is still a number, but
// the difference from the result is not. Two equal infinities share equally, as any equal numbers.
NDArray share_of_first(const BinaryValues& v, const Operand& a, const Operand& b) {
  const NDArray difference = subtract(a, b);
  return v.gradient * sigmoid(where(equal(a, b) && isnan(difference), 0, difference));
}
NDArray share_of_a(const BinaryValues& v) { return share_of_first(v, v.a, v.b); }
NDArray share_of_b(const BinaryValues& v) { return share_of_first(v, v.b, v.a); }
// The factor is 1 where the sign stayed, -1 where it changed, 0 at 0.
NDArray changed_sign(const BinaryValues& v) { return v.gradient * sign(v.a.array) * sign(v.y); }

constexpr BinaryGradient kFloorDivideGradient{{zero}, {zero}};
constexpr BinaryGradient kRemainderGradient{{whole}, {minus_floor, true, true}};
constexpr BinaryGradient kFmodGradient{{whole}, {minus_trunc, true, true}};
constexpr BinaryGradient kAtan2Gradient{{atan2_of_y, true, true}, {atan2_of_x, true, true}};
constexpr BinaryGradient kHypotGradient{{a_over_y, true, false, true}, {b_over_y, false, true, true}};
constexpr BinaryGradient kLogaddexpGradient{{share_of_a, true, true}, {share_of_b, true, true}};
constexpr BinaryGradient kCopysignGradient{{changed_sign, true, false, true}, {zero}};

}  // namespace

NDArray floor_divide(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  return binary("floor_divide", Family::no_bool, a, b, kFloorDivideGradient);
}
NDArray remainder(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  return binary("remainder", Family::no_bool, a, b, kRemainderGradient);
}
NDArray fmod(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  return binary("fmod", Family::no_bool, a, b, kFmodGradient);
}
NDArray atan2(const Operand& y, const Operand& x, Where where) {
  const CallSite site(where);
  return binary("atan2", Family::floating, y, x, kAtan2Gradient);
}
NDArray hypot(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  return binary("hypot", Family::floating, a, b, kHypotGradient);
}
NDArray logaddexp(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  return binary("logaddexp", Family::floating, a, b, kLogaddexpGradient);
}
NDArray copysign(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  return binary("copysign", Family::floating, a, b, kCopysignGradient);
}
NDArray nextafter(const Operand& a, const Operand& towards, Where where) {
  const CallSite site(where);
  return push_binary("nextafter", a, towards, binary_dtypes("nextafter", Family::floating, a, towards));
}

#define HEDDLE_DEFINE(name, family)                                      \
  NDArray name(const Operand& a, const Operand& b, Where where) {        \
    const CallSite site(where);                                          \
    return push_binary(#name, a, b, binary_dtypes(#name, family, a, b)); \
  }
HEDDLE_DEFINE(bitwise_and, Family::bits)
HEDDLE_DEFINE(bitwise_or, Family::bits)
HEDDLE_DEFINE(bitwise_xor, Family::bits)
HEDDLE_DEFINE(bitwise_left_shift, Family::integers)
HEDDLE_DEFINE(bitwise_right_shift, Family::integers)
#undef HEDDLE_DEFINE

NDArray logical_and(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  return compare("logical_and", a, b);
}
NDArray logical_or(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  return compare("logical_or", a, b);
}
NDArray logical_xor(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  return compare("logical_xor", a, b);
}

namespace operators_detail {
namespace {

void register_binary_math(OperatorTable& table) {
  using Binary = NDArray (*)(const Operand&, const Operand&, Where);
  const auto add = [&](const char* name, Binary function, const char* text, const char* first,
                       const char* second, DTypes dtypes, const char* result, bool differentiable) {
    table.add(name, function, {text, {{first, dtypes}, {second, dtypes}}, result, differentiable});
  };
  add("floor_divide", floor_divide, "a / b, rounded down. Integers divided by 0 give 0.", "a", "b",
      DTypes::no_bool, "common", true);
  add("remainder", remainder, "a - floor_divide(a, b) * b: it has the sign of b.", "a", "b", DTypes::no_bool,
      "common", true);
  add("fmod", fmod, "The remainder that has the sign of a.", "a", "b", DTypes::no_bool, "common", true);
  add("atan2", atan2, "The angle of the point (x, y).", "y", "x", DTypes::all, kFloatingCommon, true);
  add("hypot", hypot, "sqrt(a * a + b * b), without overflow.", "a", "b", DTypes::all, kFloatingCommon, true);
  add("logaddexp", logaddexp, "log(exp(a) + exp(b)), without overflow.", "a", "b", DTypes::all,
      kFloatingCommon, true);
  add("copysign", copysign, "a with the sign of b.", "a", "b", DTypes::all, kFloatingCommon, true);
  add("nextafter", nextafter, "The next number after a, towards b.", "a", "b", DTypes::all, kFloatingCommon,
      false);
  add("bitwise_and", bitwise_and, "a & b.", "a", "b", DTypes::bits, "common", false);
  add("bitwise_or", bitwise_or, "a | b.", "a", "b", DTypes::bits, "common", false);
  add("bitwise_xor", bitwise_xor, "a ^ b.", "a", "b", DTypes::bits, "common", false);
  add("bitwise_left_shift", bitwise_left_shift, "a << b. All bits go if b is negative or the width.", "a",
      "b", DTypes::integers, "common", false);
  add("bitwise_right_shift", bitwise_right_shift, "a >> b. All bits go if b is negative or the width.", "a",
      "b", DTypes::integers, "common", false);
  add("logical_and", logical_and, "Whether both are not 0.", "a", "b", DTypes::all, "bool", false);
  add("logical_or", logical_or, "Whether one is not 0.", "a", "b", DTypes::all, "bool", false);
  add("logical_xor", logical_xor, "Whether one is 0 and the other is not.", "a", "b", DTypes::all, "bool",
      false);
}

}  // namespace

}  // namespace operators_detail

HEDDLE_OPERATORS(elementwise_math) {
  table.family("Elementwise mathematics");
  register_binary_math(table);
  table.add(
      "nan_to_num", nan_to_num,
      {"x with other values for NaN and the infinities: by default the largest and smallest of the dtype.",
       {"x", {"nan", 0.0}, {"posinf", kNone}, {"neginf", kNone}},
       "that of x",
       kDifferentiable});
  table.add("bitwise_invert", bitwise_invert, {"~x; of bool, not.", {{"x", DTypes::bits}}, "that of x"});
}

}  // namespace heddle
