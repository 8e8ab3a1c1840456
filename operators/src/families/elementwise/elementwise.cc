#include <string>

#include <heddle/elementwise.h>

#include "core/operator.h"
#include "core/operator_table.h"
#include "families/elementwise/elementwise_gradient.h"
#include "families/elementwise/elementwise_rule.h"
#include "families/elementwise/kernels.h"

namespace heddle {

using namespace operators_detail;

namespace {

// greater(a, b) computes less(b, a). The checks are made before, so that errors name greater() and the
// operands in their order.
NDArray compare_swapped(const char* op, const char* kernel, const Operand& a, const Operand& b) {
  binary_dtypes(op, Family::comparison, comparable(a, b), comparable(b, a));
  binary_shape(op, a, b);
  return compare(kernel, b, a);
}

}  // namespace

NDArray add(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  return binary("add", Family::arithmetic, a, b, kAddGradient);
}
NDArray subtract(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  return binary("subtract", Family::no_bool, a, b, kSubtractGradient);
}
NDArray multiply(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  return binary("multiply", Family::arithmetic, a, b, kMultiplyGradient);
}
NDArray divide(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  return binary("divide", Family::floating, a, b, kDivideGradient);
}
NDArray power(const Operand& base, const Operand& exponent, Where where) {
  const CallSite site(where);
  const Dtypes dtypes = binary_dtypes("power", Family::no_bool, base, exponent);
  check_exponent("power", dtypes.compute, exponent);
  return binary("power", Family::no_bool, base, exponent, kPowerGradient);
}
NDArray maximum(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  return binary("maximum", Family::arithmetic, a, b, kMaximumGradient);
}
NDArray minimum(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  return binary("minimum", Family::arithmetic, a, b, kMinimumGradient);
}

NDArray negative(const NDArray& x, Where where) {
  const CallSite site(where);
  return unary("negative", Family::no_bool, x, {UnaryGradient::nothing, "negative"});
}
NDArray abs(const NDArray& x, Where where) {
  const CallSite site(where);
  return unary("abs", Family::arithmetic, x, {UnaryGradient::input, "abs_gradient"});
}
NDArray square(const NDArray& x, Where where) {
  const CallSite site(where);
  return unary("square", Family::no_bool, x, {UnaryGradient::input, "square_gradient"});
}
NDArray relu(const NDArray& x, Where where) {
  const CallSite site(where);
  return unary("relu", Family::no_bool, x, {UnaryGradient::output, "relu_gradient"});
}
NDArray exp(const NDArray& x, Where where) {
  const CallSite site(where);
  return unary("exp", Family::floating, x, {UnaryGradient::output, "multiply"});
}
NDArray log(const NDArray& x, Where where) {
  const CallSite site(where);
  return unary("log", Family::floating, x, {UnaryGradient::input, "divide"});
}
NDArray sqrt(const NDArray& x, Where where) {
  const CallSite site(where);
  return unary("sqrt", Family::floating, x, {UnaryGradient::output, "sqrt_gradient"});
}
NDArray tanh(const NDArray& x, Where where) {
  const CallSite site(where);
  return unary("tanh", Family::floating, x, {UnaryGradient::output, "tanh_gradient"});
}
NDArray sigmoid(const NDArray& x, Where where) {
  const CallSite site(where);
  return unary("sigmoid", Family::floating, x, {UnaryGradient::output, "sigmoid_gradient"});
}

NDArray equal(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  return compare("equal", a, b);
}
NDArray not_equal(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  return compare("not_equal", a, b);
}
NDArray less(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  return compare("less", a, b);
}
NDArray less_equal(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  return compare("less_equal", a, b);
}
NDArray greater(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  return compare_swapped("greater", "less", a, b);
}
NDArray greater_equal(const Operand& a, const Operand& b, Where where) {
  const CallSite site(where);
  return compare_swapped("greater_equal", "less_equal", a, b);
}

NDArray logical_not(const NDArray& x, Where where) {
  const CallSite site(where);
  return classify("logical_not", x);
}

namespace operators_detail {
namespace {

constexpr const char* kCommon = "common";

void register_arithmetic(OperatorTable& table) {
  const auto add_binary = [&](const char* name, auto* function, std::string text, DTypes dtypes,
                              const char* result) {
    table.add(name, function, {std::move(text), {{"a", dtypes}, {"b", dtypes}}, result, kDifferentiable});
  };
  add_binary("add", add, "a + b; of bools, or.", DTypes::all, kCommon);
  add_binary("subtract", subtract, "a - b.", DTypes::no_bool, kCommon);
  add_binary("multiply", multiply, "a * b; of bools, and.", DTypes::all, kCommon);
  add_binary("divide", divide, "a / b, in floating point.", DTypes::all, kFloatingCommon);
  table.add("power", power,
            {"base to the power of exponent. A negative exponent of integers is an error.",
             {{"base", DTypes::no_bool}, {"exponent", DTypes::no_bool}},
             kCommon,
             kDifferentiable});
  add_binary("maximum", maximum, "The larger of both; NaN if either is.", DTypes::all, kCommon);
  add_binary("minimum", minimum, "The smaller of both; NaN if either is.", DTypes::all, kCommon);
}

void register_unary(OperatorTable& table) {
  const auto add_unary = [&](const char* name, auto* function, std::string text, DTypes dtypes,
                             const char* result) {
    table.add(name, function, {std::move(text), {{"x", dtypes}}, result, kDifferentiable});
  };
  const char* same = "that of x";
  const char* floating = "that of x; f64 for integers and bool";
  add_unary("negative", negative, "-x.", DTypes::no_bool, same);
  add_unary("abs", abs, "The absolute value.", DTypes::all, same);
  add_unary("square", square, "x * x.", DTypes::no_bool, same);
  add_unary("relu", relu, "max(x, 0); NaN of NaN.", DTypes::no_bool, same);
  add_unary("exp", exp, "e to the power of x.", DTypes::all, floating);
  add_unary("log", log, "The natural logarithm.", DTypes::all, floating);
  add_unary("sqrt", sqrt, "The square root.", DTypes::all, floating);
  add_unary("tanh", tanh, "The hyperbolic tangent.", DTypes::all, floating);
  add_unary("sigmoid", sigmoid, "1 / (1 + exp(-x)).", DTypes::all, floating);
}

void register_comparisons(OperatorTable& table) {
  const auto add_comparison = [&](const char* name, auto* function, std::string text) {
    table.add(name, function,
              {std::move(text) + " Integers are compared by their values.", {"a", "b"}, "bool"});
  };
  add_comparison("equal", equal, "a == b.");
  add_comparison("not_equal", not_equal, "a != b.");
  add_comparison("less", less, "a < b.");
  add_comparison("less_equal", less_equal, "a <= b.");
  add_comparison("greater", greater, "a > b.");
  add_comparison("greater_equal", greater_equal, "a >= b.");
}

}  // namespace

}  // namespace operators_detail

HEDDLE_OPERATORS(elementwise) {
  table.family("Elementwise");
  register_arithmetic(table);
  register_unary(table);
  register_comparisons(table);
  table.add("logical_not", logical_not, {"x == 0.", {"x"}, "bool"});
}

}  // namespace heddle
