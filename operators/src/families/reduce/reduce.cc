#include <algorithm>
#include <array>
#include <string>

#include <heddle/elementwise.h>
#include <heddle/reduce.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/autocast.h"
#include "core/halves.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/elementwise/elementwise_rule.h"
#include "families/reduce/kernels.h"
#include "families/reduce/reduction.h"

namespace heddle {

using namespace operators_detail;

namespace {

Shape with_ones(Shape shape, const Dims& axes) {
  for (std::int64_t axis : axes) shape[static_cast<int>(axis)] = 1;
  return shape;
}

Shape without(const Shape& shape, const Dims& axes) {
  Shape rest;
  int next = 0;
  for (int axis = 0; axis < shape.size(); ++axis) {
    if (next < axes.size() && axes[next] == axis)
      ++next;
    else
      rest.push_back(shape[axis]);
  }
  return rest;
}

}  // namespace

namespace operators_detail {

Dims reduced_axes(const char* op, const NDArray& x, const Dims& axes) {
  std::array<bool, kMaxDims> reduced{};
  for (std::int64_t given : axes) {
    const int axis = ndarray_detail::axis_of(op, given, x.shape());
    if (reduced[axis]) {
      throw InvalidArgument(std::string(op) + ": axis " + std::to_string(given) + " is given twice in " +
                            axes.to_string());
    }
    reduced[axis] = true;
  }
  Dims result;
  for (int axis = 0; axis < x.ndim(); ++axis) {
    if (axes.empty() || reduced[axis]) result.push_back(axis);
  }
  return result;
}

NDArray push_reduce(const char* op, const NDArray& x, const Dims& axes, DType result) {
  const NDArray source = x.detach(), y = make_result(x, with_ones(x.shape(), axes), result);
  auto* kernel = kernel_for<ReduceKernel>(op, x);
  array_push(op, OpCost::per_element, {source}, {y},
             recordable([=](const KernelContext& context) { kernel(context, source, y, axes); }));
  return y;
}

NDArray without_reduced(const NDArray& kept, const NDArray& x, const Dims& axes, bool keepdims) {
  return keepdims ? kept : kept.view_as(without(x.shape(), axes));
}

}  // namespace operators_detail

namespace {

// The gradient of a reduction's result, broadcast to the input's shape.
NDArray spread(const NDArray& gradient, const Shape& shape, const Dims& axes) {
  return gradient.contiguous().view_as(with_ones(shape, axes)).broadcast_view(shape);
}

NDArray extreme(const char* op, const NDArray& x, const Dims& given, bool keepdims) {
  check_arrays(op, {&x});
  if (is_half(x.dtype()) && (recording({&x}) || !reads_halves(x)))
    return cast(extreme(op, wide(x), given, keepdims), x.dtype());
  const Dims axes = reduced_axes(op, x, given);
  const bool nothing = std::any_of(axes.begin(), axes.end(),
                                   [&](auto axis) { return x.shape()[static_cast<int>(axis)] == 0; });
  if (nothing) {
    throw InvalidArgument(std::string(op) + ": nothing to choose from in shape " + x.shape().to_string());
  }
  const NDArray kept = push_reduce(op, x, axes, x.dtype());
  NDArray y = without_reduced(kept, x, axes, keepdims);
  if (!recording({&x})) return y;
  const NDArray of_x = save_for_backward(x), largest = save_for_backward(kept.detach());
  record_op(op, y, {x}, {of_x, largest}, [=, shape = kept.shape(), dtype = x.dtype()](const NDArray& g) {
    const NDArray winners = push_binary("same", of_x, largest, {dtype, DType::boolean});
    const NDArray share = divide(g.contiguous().view_as(shape), sum(winners.astype(dtype), axes, true));
    return std::vector{where(winners, share, 0)};
  });
  return y;
}

NDArray arg_extreme(const char* op, const NDArray& x, std::optional<int> given) {
  check_arrays(op, {&x});
  if (is_half(x.dtype()) && !reads_halves(x)) return arg_extreme(op, wide(x.detach()), given);
  if (!given) return arg_extreme(op, x.detach().contiguous().view_as({x.size()}), 0);
  const int axis = ndarray_detail::axis_of(op, *given, x.shape());
  if (x.shape()[axis] == 0) {
    throw InvalidArgument(std::string(op) + ": axis " + std::to_string(*given) + " of shape " +
                          x.shape().to_string() + " is empty");
  }
  const NDArray source = x.detach(), y = make_result(x, with_ones(x.shape(), {axis}), DType::i64);
  auto* kernel = kernel_for<ArgReduceKernel>(op, x);
  array_push(op, OpCost::per_element, {source}, {y},
             recordable([=](const KernelContext& context) { kernel(context, source, y, axis); }));
  return y.view_as(without(x.shape(), {axis}));
}

}  // namespace

NDArray sum(const NDArray& x, Dims given, bool keepdims, Where where) {
  const CallSite site(where);
  check_arrays("sum", {&x});
  const DType dtype = x.dtype();
  if (is_half(dtype) && !reads_halves(x))
    return operators_detail::narrowed(sum(wide(x), given, keepdims), dtype);
  const Dims axes = reduced_axes("sum", x, given);
  const DType result = is_half(dtype) ? DType::f32 : sum_dtype(dtype);
  NDArray y = without_reduced(push_reduce("sum", x, axes, result), x, axes, keepdims);
  if (recording({&x})) {
    record_op("sum", y, {x}, {}, [shape = x.shape(), axes, dtype](const NDArray& g) {
      return std::vector{spread(cast(g, dtype), shape, axes)};
    });
  }
  return is_half(dtype) ? operators_detail::narrowed(y, dtype) : y;
}

NDArray mean(const NDArray& x, Dims given, bool keepdims, Where where) {
  const CallSite site(where);
  check_arrays("mean", {&x});
  const DType dtype = x.dtype();
  if (is_half(dtype) && !reads_halves(x))
    return operators_detail::narrowed(mean(wide(x), given, keepdims), dtype);
  const Dims axes = reduced_axes("mean", x, given);
  const NDArray source = is_floating(dtype) ? x : x.astype(DType::f64);
  const DType result = is_half(dtype) ? DType::f32 : source.dtype();
  NDArray y = without_reduced(push_reduce("mean", source, axes, result), x, axes, keepdims);
  if (recording({&x})) {
    record_op("mean", y, {x}, {}, [shape = x.shape(), axes, dtype](const NDArray& g) {
      const auto share = static_cast<double>(g.size()) / static_cast<double>(element_count(shape));
      return std::vector{spread(cast(multiply(g, share), dtype), shape, axes)};
    });
  }
  return is_half(dtype) ? operators_detail::narrowed(y, dtype) : y;
}

NDArray max(const NDArray& x, Dims axes, bool keepdims, Where where) {
  const CallSite site(where);
  return extreme("max", x, axes, keepdims);
}
NDArray min(const NDArray& x, Dims axes, bool keepdims, Where where) {
  const CallSite site(where);
  return extreme("min", x, axes, keepdims);
}
NDArray argmax(const NDArray& x, std::optional<int> axis, Where where) {
  const CallSite site(where);
  return arg_extreme("argmax", x, axis);
}
NDArray argmin(const NDArray& x, std::optional<int> axis, Where where) {
  const CallSite site(where);
  return arg_extreme("argmin", x, axis);
}

namespace operators_detail {

NDArray sum_to_shape(const NDArray& gradient, const Shape& shape) {
  if (gradient.shape() == shape) return gradient;
  const int added = gradient.ndim() - shape.size();
  Dims axes;
  for (int axis = 0; axis < gradient.ndim(); ++axis) {
    const bool stretched = axis >= added && shape[axis - added] == 1 && gradient.shape()[axis] != 1;
    if (axis < added || stretched) axes.push_back(axis);
  }
  return sum(gradient, axes, true).view_as(shape);
}

}  // namespace operators_detail

HEDDLE_OPERATORS(reductions) {
  table.family("Reductions");
  const Argument axis = {"axis", kNone}, keepdims = {"keepdims", false};
  const std::string along = " along `axis`, an axis or several; None: all.";
  using Reduction = NDArray (*)(const NDArray&, Dims, bool, Where);
  table.add("sum", static_cast<Reduction>(sum),
            {"The sum" + along,
             {"x", axis, keepdims},
             "that of x; i64 for integers and bool, u64 for unsigned ones",
             kDifferentiable});
  table.add(
      "mean", mean,
      {"The mean" + along, {"x", axis, keepdims}, "that of x; f64 for integers and bool", kDifferentiable});
  table.add("max", static_cast<Reduction>(max),
            {"The largest element" + along, {"x", axis, keepdims}, "that of x", kDifferentiable});
  table.add("min", static_cast<Reduction>(min),
            {"The smallest element" + along, {"x", axis, keepdims}, "that of x", kDifferentiable});
  table.add("argmax", argmax,
            {"The index of the first largest element along `axis`; None: in the flattened array.",
             {"x", axis},
             "i64"});
  table.add("argmin", argmin,
            {"The index of the first smallest element along `axis`; None: in the flattened array.",
             {"x", axis},
             "i64"});
}

}  // namespace heddle
