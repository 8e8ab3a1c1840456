#include "families/elementwise/elementwise_gradient.h"

#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include <heddle/elementwise.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/operator.h"
#include "families/elementwise/elementwise_rule.h"

namespace heddle::operators_detail {

namespace {

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
  const bool computes = partial.saves != Partial::nothing;
  const NDArray whole =
      computes && is_half(values.gradient.dtype()) ? partial.of(widened(values)) : partial.of(values);
  return cast(sum_to_shape(whole, target.shape), target.dtype);
}

void record_unary(const char* op, NDArray& y, const NDArray& x, const UnaryGradient& gradient) {
  if (!gradient.exists() || !recording({&x})) return;
  if (gradient.saves == UnaryGradient::nothing) {
    return record_op(op, y, {x}, {}, [of = gradient.of](const NDArray& g) { return std::vector{of(g, {})}; });
  }
  const NDArray kept = save_for_backward(gradient.saves == UnaryGradient::x ? x : y);
  record_op(op, y, {x}, {kept}, [kept, of = gradient.of, kernel = gradient.kernel](const NDArray& g) {
    if (kernel && !differentiating_gradient())
      return std::vector{push_binary(kernel, g, kept, {g.dtype(), g.dtype()})};
    // Halves are computed as f32, so that they are not rounded between the steps.
    return std::vector{cast(of(wide(g), wide(kept)), g.dtype())};
  });
}

void record_binary(const char* op, NDArray& y, const Operand& a, const Operand& b,
                   const BinaryGradient& gradient) {
  if (!gradient.exists() || !recording({&a.array, &b.array})) return;
  const Target left = target_of(a), right = target_of(b);
  const unsigned saves = (left.wanted ? gradient.left.saves : Partial::nothing) |
                         (right.wanted ? gradient.right.saves : Partial::nothing);
  BinaryValues values{{}, a, b, {}};
  std::vector<NDArray> saved;
  save(saved, values.a, saves & Partial::a);
  save(saved, values.b, saves & Partial::b);
  if (saves & Partial::y) saved.push_back(values.y = save_for_backward(y));
  std::vector<NDArray> inputs;
  if (a.is_array) inputs.push_back(a.array);
  if (b.is_array) inputs.push_back(b.array);
  record_op(op, y, std::move(inputs), std::move(saved), [=](const NDArray& g) {
    BinaryValues with_gradient = values;
    with_gradient.gradient = g;
    std::vector<NDArray> gradients;
    if (values.a.is_array) gradients.push_back(gradient_of(gradient.left, with_gradient, left));
    if (values.b.is_array) gradients.push_back(gradient_of(gradient.right, with_gradient, right));
    return gradients;
  });
}

}  // namespace

NDArray unary(const Kernel<UnaryKernel>& kernel, Family family, const NDArray& x,
              const UnaryGradient& gradient) {
  check_arrays(kernel.op(), {&x});
  const DType dtype = unary_dtype(kernel.op(), family, x.dtype());
  NDArray y = push_unary(kernel, x, dtype, family == Family::comparison ? DType::boolean : dtype);
  record_unary(kernel.op(), y, x, gradient);
  return y;
}

NDArray binary(const Kernel<BinaryKernel>& kernel, Family family, const Operand& a, const Operand& b,
               const BinaryGradient& gradient) {
  if (family == Family::comparison) return compare(kernel, a, b);
  NDArray y = push_binary(kernel, a, b, binary_dtypes(kernel.op(), family, a, b));
  record_binary(kernel.op(), y, a, b, gradient);
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
NDArray compare_with_u64(const Kernel<BinaryKernel>& kernel, const NDArray& a, const NDArray& b) {
  const bool a_signed = is_signed_integer(a.dtype());
  const auto as_u64 = [](const NDArray& x) { return x.detach().astype(DType::u64); };
  const std::string_view name = kernel.op();
  const bool if_negative = name == "not_equal" || (name != "equal" && a_signed);
  const NDArray others = compare(kernel, as_u64(a), as_u64(b)),
                negative = compare("less", a_signed ? a : b, 0);
  return where(negative, if_negative, others);
}

}  // namespace

NDArray compare(const Kernel<BinaryKernel>& kernel, const Operand& a, const Operand& b) {
  const char* op = kernel.op();
  const Operand left = comparable(a, b), right = comparable(b, a);
  if (a.is_array && b.is_array) {
    check_arrays(op, {&a.array, &b.array});
    const DType x = a.array.dtype(), y = b.array.dtype();
    if (!std::string_view(op).starts_with("logical") &&
        ((x == DType::u64 && is_signed_integer(y)) || (y == DType::u64 && is_signed_integer(x)))) {
      binary_shape(op, a, b);
      return compare_with_u64(kernel, a.array, b.array);
    }
  }
  return push_binary(kernel, left, right, binary_dtypes(op, Family::comparison, left, right));
}

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

}  // namespace heddle::operators_detail
