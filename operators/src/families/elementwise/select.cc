// where, clip and nan_to_num: elements selected by a condition.
#include <limits>
#include <string>
#include <vector>

#include <heddle/elementwise_math.h>
#include <heddle/number_text.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/elementwise/elementwise_rule.h"
#include "families/elementwise/kernels.h"

namespace heddle {

using namespace operators_detail;

namespace {

DType where_dtype(const Operand& a, const Operand& b) {
  if (a.is_array || b.is_array) return binary_dtypes("where", Family::arithmetic, a, b).result;
  if (a.scalar.is_boolean() && b.scalar.is_boolean()) return DType::boolean;
  return a.scalar.is_integral() && b.scalar.is_integral() ? DType::i64 : DType::f32;
}

Shape where_shape(const NDArray& condition, const Operand& a, const Operand& b) {
  Shape shape = condition.shape();
  if (a.is_array) shape = broadcast_for("where", shape, a.array.shape());
  if (b.is_array) shape = broadcast_for("where", shape, b.array.shape());
  return shape;
}

void check_where(const NDArray& condition, const Operand& a, const Operand& b) {
  check_arrays("where", {&condition, a.is_array ? &a.array : &condition, b.is_array ? &b.array : &condition});
  if (condition.dtype() != DType::boolean) {
    throw InvalidArgument(std::string("where: condition has dtype ") + name_of(condition.dtype()) +
                          "; wanted bool");
  }
}

NDArray push_where(const NDArray& condition, const Operand& a, const Operand& b, const Shape& shape,
                   DType dtype) {
  const NDArray y = make_result(condition, shape, dtype);
  const NDArray mask = prepared(condition, DType::boolean, shape).array;
  const Operand left = prepared(a, dtype, shape), right = prepared(b, dtype, shape);
  std::vector<NDArray> reads{mask};
  if (left.is_array) reads.push_back(left.array);
  if (right.is_array) reads.push_back(right.array);
  auto* kernel = kernel_for<WhereKernel>("where", condition);
  push_op("where", reads, {&y, 1},
          recordable([=](const KernelContext& context) { kernel(context, mask, left, right, y); }), 0,
          OpCost::per_element);
  return y;
}

// The gradient of an operand of where(): the gradient of y where the operand was chosen, summed to the operand's shape.
NDArray chosen_part(const NDArray& condition, const Operand& a, const Operand& b, const Shape& shape,
                    DType dtype) {
  const NDArray gradient = sum_to_shape(where(condition, a, b), shape);
  return gradient.dtype() == dtype ? gradient : gradient.astype(dtype);
}

struct Side {
  bool is_a, wanted;
  Shape shape;
  DType dtype;
};

void record_where(NDArray& y, const NDArray& condition, const Operand& a, const Operand& b) {
  if (!recording({&a.array, &b.array})) return;
  std::vector<NDArray> inputs;
  std::vector<Side> sides;
  for (const Operand* operand : {&a, &b}) {
    if (!operand->is_array) continue;
    const NDArray& array = operand->array;
    inputs.push_back(array);
    sides.push_back({operand == &a, requires_grad(array), array.shape(), array.dtype()});
  }
  const NDArray mask = condition.detach();
  record_op("where", y, inputs, {mask}, [mask, sides](const NDArray& g) {
    std::vector<NDArray> gradients(sides.size());
    for (std::size_t i = 0; i < sides.size(); ++i) {
      const Side& side = sides[i];
      if (!side.wanted) continue;
      gradients[i] = side.is_a ? chosen_part(mask, g, 0, side.shape, side.dtype)
                               : chosen_part(mask, 0, g, side.shape, side.dtype);
    }
    return gradients;
  });
}

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

NDArray where(const NDArray& condition, const Operand& a, const Operand& b, Where at) {
  const CallSite site(at);
  check_where(condition, a, b);
  NDArray y = push_where(condition, a, b, where_shape(condition, a, b), where_dtype(a, b));
  record_where(y, condition, a, b);
  return y;
}

NDArray clip(const NDArray& x, Scalar low, Scalar high, Where at) {
  const CallSite site(at);
  check_arrays("clip", {&x});
  const bool narrow = !is_floating(x.dtype()) && x.dtype() != DType::u64;
  if (narrow && low.is_huge()) weak_dtype("clip", x.dtype(), low);  // throws InvalidArgument
  if (narrow && high.is_huge()) return clip(x, low, std::numeric_limits<std::int64_t>::max(), at);
  if (!(low.real() <= high.real())) {
    throw InvalidArgument("clip: min is " + number_text(low.real()) + " and max " + number_text(high.real()) +
                          "; wanted min <= max");
  }
  const auto widened = [](DType dtype, Scalar bound) {
    if (bound.is_huge() && dtype == DType::u64) return dtype;
    if (!bound.is_integral()) return is_floating(dtype) ? dtype : DType::f64;
    return dtype == DType::boolean && !bound.is_boolean() ? DType::i64 : dtype;
  };
  const DType dtype = widened(widened(x.dtype(), low), high);
  const NDArray source = prepared(x, dtype, x.shape()).array;
  NDArray y = make_result(x, x.shape(), dtype);
  auto* kernel = kernel_for<ClipKernel>("clip", x);
  array_push("clip", OpCost::per_element, {source}, {y},
             recordable([=, y = y.detach()](const KernelContext& context) {
               kernel(context, source, low, high, y);
             }));
  if (recording({&x})) {
    const NDArray kept = save_for_backward(x);
    record_op("clip", y, {x}, {kept}, [=](const NDArray& g) {
      return std::vector{where(less(kept, low), 0, where(greater(kept, high), 0, g))};
    });
  }
  return y;
}

NDArray nan_to_num(const NDArray& x, double nan, std::optional<double> posinf, std::optional<double> neginf,
                   Where at) {
  const CallSite site(at);
  check_arrays("nan_to_num", {&x});
  if (!is_floating(x.dtype())) return copy(x);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double largest = largest_finite(x.dtype());
  const NDArray finite = where(equal(x, kInfinity), posinf.value_or(largest),
                               where(equal(x, -kInfinity), neginf.value_or(-largest), x));
  return where(isnan(x), nan, finite);
}

HEDDLE_OPERATORS(selection) {
  table.family("Elementwise mathematics");
  table.add("where", where,
            {"a where condition is true, else b; all three broadcast.",
             {{"condition", DTypes::boolean}, "a", "b"},
             "common of a and b",
             kDifferentiable});
  table.add("clip", clip,
            {"min where x < min, max where x > max; NaN of NaN.",
             {"x", "min", "max"},
             "that of x; wider where a bound is of another kind",
             kDifferentiable});
  table.add(
      "nan_to_num", nan_to_num,
      {"x with other values for NaN and the infinities: by default the largest and smallest of the dtype.",
       {"x", {"nan", 0.0}, {"posinf", kNone}, {"neginf", kNone}},
       "that of x",
       kDifferentiable});
}

}  // namespace heddle
