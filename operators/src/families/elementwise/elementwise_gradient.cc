#include "families/elementwise/elementwise_gradient.h"

#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <heddle/elementwise_math.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/operator.h"
#include "families/elementwise/elementwise_rule.h"

namespace heddle::operators_detail {

namespace {

NDArray binary_like(const char* kernel, const NDArray& a, const NDArray& b) {
  return push_binary(kernel, a, b, {a.dtype(), a.dtype()});
}

// Computes the same as a gradient's kernel, by operators, which have gradients.
NDArray by_operators(std::string_view kernel, const NDArray& g, const NDArray& kept) {
  if (kernel == "multiply") return g * kept;
  if (kernel == "divide") return g / kept;
  // The result at 0 is 0 also for an infinite or undetermined g, as the kernel gives.
  if (kernel == "abs_gradient") return where(kept == 0, 0, g * sign(kept));
  if (kernel == "square_gradient") return g * kept * 2;
  if (kernel == "relu_gradient") return where(kept <= 0, 0, g);
  if (kernel == "sqrt_gradient") return g / (kept * 2);
  if (kernel == "tanh_gradient") return g * (1 - square(kept));
  if (kernel == "sigmoid_gradient") return g * kept * (1 - kept);
  refuse_second_gradient(kernel.data());
}

NDArray pass(const BinaryValues& v) { return v.gradient; }
NDArray pass_negated(const BinaryValues& v) { return negative(v.gradient); }
NDArray times_a(const BinaryValues& v) { return multiply(v.gradient, v.a); }
NDArray times_b(const BinaryValues& v) { return multiply(v.gradient, v.b); }

NDArray over_b(const BinaryValues& v) { return divide(v.gradient, v.b); }
NDArray divisor(const BinaryValues& v) { return negative(divide(multiply(v.gradient, v.y), v.b)); }

// The gradient of the base: b * a^(b-1), and 0 for b = 0, where the formula gives NaN at a = 0.
NDArray power_base(const BinaryValues& v) {
  if (!v.b.is_array) {
    const double exponent = v.b.scalar.real();
    if (exponent == 0) return multiply(v.gradient, 0);
    return multiply(multiply(v.gradient, power(v.a, exponent - 1)), exponent);
  }
  const NDArray slope = multiply(v.b, power(v.a, subtract(v.b, 1)));
  return where(equal(v.b, 0), 0, multiply(v.gradient, slope));
}

// The gradient of the exponent: log(a) * a^b, and 0 for a = 0 where b >= 0, its limit for b > 0. For b < 0
// the product gives the limit, -inf.
NDArray power_exponent(const BinaryValues& v) {
  const NDArray scaled = multiply(v.gradient, v.y);
  if (v.a.is_array) {
    const NDArray flat = multiply(equal(v.a, 0), greater_equal(v.b, 0));
    return where(flat, 0, multiply(scaled, log(v.a.array)));
  }
  const double base = v.a.scalar.real();
  const NDArray slope = multiply(scaled, std::log(base));
  return base == 0 ? where(greater_equal(v.b, 0), 0, slope) : slope;
}

// The operands' shares of the gradient count as constants: they do not change between steps.
NDArray by_share(const char* kernel, const BinaryValues& v, const Operand& first, const Operand& second) {
  const DType dtype = v.gradient.dtype();
  return multiply(v.gradient, push_binary(kernel, first, second, {dtype, dtype}));
}
NDArray where_a_larger(const BinaryValues& v) { return by_share("larger_share", v, v.a, v.b); }
NDArray where_b_larger(const BinaryValues& v) { return by_share("larger_share", v, v.b, v.a); }
NDArray where_a_smaller(const BinaryValues& v) { return by_share("smaller_share", v, v.a, v.b); }
NDArray where_b_smaller(const BinaryValues& v) { return by_share("smaller_share", v, v.b, v.a); }

void save(std::vector<NDArray>& saved, Operand& operand, bool used) {
  if (!operand.is_array) return;
  if (used) {
    operand.array = save_for_backward(operand.array);
    saved.push_back(operand.array);
  } else {
    operand.array = NDArray();
  }
}

struct Target {
  bool wanted;
  Shape shape;
  DType dtype;
};

Target target_of(const Operand& operand) {
  if (!operand.is_array || !requires_grad(operand.array)) return {false, {}, DType::f32};
  return {true, operand.array.shape(), operand.array.dtype()};
}

Operand widened(const Operand& operand) {
  return operand.array.defined() ? Operand(wide(operand.array)) : operand;
}
BinaryValues widened(const BinaryValues& v) {
  return {wide(v.gradient), widened(v.a), widened(v.b), wide(v.y)};
}

NDArray gradient_of(const Partial& partial, const BinaryValues& values, const Target& target) {
  if (!target.wanted) return {};
  // A gradient that is computed in several steps is not rounded to a half between the steps.
  const bool computes = partial.uses_a || partial.uses_b || partial.uses_y;
  const NDArray whole =
      computes && is_half(values.gradient.dtype()) ? partial.of(widened(values)) : partial.of(values);
  return cast(sum_to_shape(whole, target.shape), target.dtype);
}

}  // namespace

NDArray unary(const char* op, Family family, const NDArray& x, const UnaryGradient& gradient) {
  check_arrays(op, {&x});
  const DType dtype = unary_dtype(op, family, x.dtype());
  NDArray y = push_unary(op, x, dtype, dtype);
  record_unary(op, y, x, gradient);
  return y;
}

NDArray binary(const char* op, Family family, const Operand& a, const Operand& b,
               const BinaryGradient& gradient) {
  NDArray y = push_binary(op, a, b, binary_dtypes(op, family, a, b));
  record_binary(op, y, a, b, gradient);
  return y;
}

Operand comparable(const Operand& operand, const Operand& other) {
  const bool huge = !operand.is_array && operand.scalar.is_huge();
  const DType dtype = other.array.defined() ? other.array.dtype() : DType::f64;
  if (!huge || is_floating(dtype) || dtype == DType::u64) return operand;
  return std::numeric_limits<double>::infinity();
}

namespace {

// No dtype represents every i64 and every u64. A negative number is below any u64; the others are compared as
// u64.
NDArray compare_with_u64(const char* op, const NDArray& a, const NDArray& b) {
  const bool a_signed = is_signed_integer(a.dtype());
  const auto as_u64 = [](const NDArray& x) { return x.detach().astype(DType::u64); };
  const std::string name = op;
  const bool if_negative = name == "not_equal" || (name != "equal" && a_signed);
  const NDArray others = compare(op, as_u64(a), as_u64(b)), negative = compare("less", a_signed ? a : b, 0);
  return where(negative, if_negative, others);
}

}  // namespace

NDArray compare(const char* op, const Operand& a, const Operand& b) {
  const Operand left = comparable(a, b), right = comparable(b, a);
  if (a.is_array && b.is_array) {
    check_arrays(op, {&a.array, &b.array});
    const DType x = a.array.dtype(), y = b.array.dtype();
    if (!std::string_view(op).starts_with("logical") &&
        ((x == DType::u64 && is_signed_integer(y)) || (y == DType::u64 && is_signed_integer(x)))) {
      binary_shape(op, a, b);
      return compare_with_u64(op, a.array, b.array);
    }
  }
  return push_binary(op, left, right, binary_dtypes(op, Family::comparison, left, right));
}

NDArray classify(const char* op, const NDArray& x) {
  check_arrays(op, {&x});
  return push_unary(op, x, x.dtype(), DType::boolean);
}

const BinaryGradient kAddGradient{{pass}, {pass}};
const BinaryGradient kSubtractGradient{{pass}, {pass_negated}};
const BinaryGradient kMultiplyGradient{{times_b, false, true}, {times_a, true}};
const BinaryGradient kDivideGradient{{over_b, false, true}, {divisor, false, true, true}};
const BinaryGradient kPowerGradient{{power_base, true, true}, {power_exponent, true, true, true}};
const BinaryGradient kMaximumGradient{{where_a_larger, true, true}, {where_b_larger, true, true}};
const BinaryGradient kMinimumGradient{{where_a_smaller, true, true}, {where_b_smaller, true, true}};

NDArray no_change(const NDArray& g) { return no_change(g, g.shape(), g.dtype()); }

NDArray no_change(const NDArray& g, const Shape& shape, DType dtype) {
  NDArray y = make_result(g, shape, dtype);
  y.fill(0);
  if (recording({&g}))
    record_op("zeros_like", y, {g}, {}, [](const NDArray&) { return std::vector{NDArray()}; });
  return y;
}

void record_constant(const char* op, NDArray& y, const NDArray& x) {
  if (!recording({&x})) return;
  record_op(op, y, {x}, {}, [shape = x.shape(), dtype = x.dtype()](const NDArray& g) {
    return std::vector{no_change(g, shape, dtype)};
  });
}

void record_unary(const char* op, NDArray& y, const NDArray& x, const UnaryGradient& gradient) {
  if (!recording({&x})) return;
  if (gradient.saves == UnaryGradient::nothing) {
    return record_op(op, y, {x}, {}, [=](const NDArray& g) {
      return std::vector{gradient.of ? gradient.of(g, {})
                                     : unary(gradient.kernel, Family::no_bool, g, gradient)};
    });
  }
  const NDArray kept = save_for_backward(gradient.saves == UnaryGradient::input ? x : y);
  record_op(op, y, {x}, {kept}, [=](const NDArray& g) {
    if (!gradient.of && !differentiating_gradient())
      return std::vector{binary_like(gradient.kernel, g, kept)};
    // Computed as f32: halves are not rounded between the steps.
    const NDArray wide_g = wide(g), wide_kept = wide(kept);
    const NDArray of_x =
        gradient.of ? gradient.of(wide_g, wide_kept) : by_operators(gradient.kernel, wide_g, wide_kept);
    return std::vector{cast(of_x, g.dtype())};
  });
}

void record_binary(const char* op, NDArray& y, const Operand& a, const Operand& b,
                   const BinaryGradient& gradient) {
  if (!recording({&a.array, &b.array})) return;
  const Target left = target_of(a), right = target_of(b);
  const auto uses = [&](bool Partial::*value) {
    return (left.wanted && gradient.left.*value) || (right.wanted && gradient.right.*value);
  };
  BinaryValues values{{}, a, b, {}};
  std::vector<NDArray> saved;
  save(saved, values.a, uses(&Partial::uses_a));
  save(saved, values.b, uses(&Partial::uses_b));
  if (uses(&Partial::uses_y)) saved.push_back(values.y = save_for_backward(y));
  std::vector<NDArray> inputs;
  if (a.is_array) inputs.push_back(a.array);
  if (b.is_array) inputs.push_back(b.array);
  record_op(op, y, std::move(inputs), std::move(saved), [=, &gradient](const NDArray& g) {
    BinaryValues with_gradient = values;
    with_gradient.gradient = g;
    std::vector<NDArray> gradients;
    if (values.a.is_array) gradients.push_back(gradient_of(gradient.left, with_gradient, left));
    if (values.b.is_array) gradients.push_back(gradient_of(gradient.right, with_gradient, right));
    return gradients;
  });
}

}  // namespace heddle::operators_detail
