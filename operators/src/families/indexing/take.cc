// take and one_hot: elements looked up by arrays of indices.
#include <string>

#include <heddle/autograd.h>
#include <heddle/shape_ops.h>

#include "autograd/view_gradient.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/indexing/kernels.h"
#include "families/indexing/places.h"

namespace heddle {

using namespace operators_detail;

namespace {

Shape taken_shape(const char* op, const Shape& x, const Shape& indices, int axis) {
  if (x.size() - 1 + indices.size() > kMaxDims) {
    throw InvalidArgument(std::string(op) + ": shapes " + x.to_string() + " and " + indices.to_string() +
                          " make more than " + std::to_string(kMaxDims) + " dimensions");
  }
  Shape shape;
  for (int d = 0; d < axis; ++d) shape.push_back(x[d]);
  for (std::int64_t size : indices) shape.push_back(size);
  for (int d = axis + 1; d < x.size(); ++d) shape.push_back(x[d]);
  return shape;
}

}  // namespace

void operators_detail::add_taken(const NDArray& gradient, const NDArray& indices, const NDArray& whole,
                                 int axis) {
  if (is_half(whole.dtype())) {
    const NDArray sums = whole.astype(DType::f32);
    add_taken(gradient.astype(DType::f32), indices, sums, axis);
    return whole.detach().assign(sums);
  }
  const NDArray source = gradient.contiguous(), target = whole.detach();
  auto* kernel = kernel_for<TakeGradientKernel>("take_gradient", gradient);
  array_push("take_gradient", {source, indices, target}, {target},
             [=](const KernelContext& context) { kernel(context, source, indices, target, axis); });
}

NDArray operators_detail::taken(const char* op, const NDArray& x, const NDArray& indices, int given) {
  check_arrays(op, {&x, &indices});
  check_indices(op, "indices", indices);
  const int axis = ndarray_detail::axis_of(op, given, x.shape());
  const NDArray source = x.detach().contiguous(), at = indices.detach();
  NDArray y = make_result(x, taken_shape(op, x.shape(), indices.shape(), axis), x.dtype());
  auto* kernel = kernel_for<TakeKernel>("take", x);
  array_push(op, OpCost::per_element, {source, at}, {y},
             [=, y = y.detach()](const KernelContext& context) { kernel(context, op, source, at, y, axis); });
  if (recording({&x})) {
    record_part(
        op, y, x, {at}, [at, axis](const NDArray& g, const NDArray& whole) { add_taken(g, at, whole, axis); },
        [at, axis](const NDArray& like_x) { return take(like_x, at, axis); });
  }
  return y;
}

NDArray take(const NDArray& x, const NDArray& indices, int axis, Where where) {
  const CallSite site(where);
  return taken("take", x, indices, axis);
}

NDArray one_hot(const NDArray& labels, std::int64_t n, DType dtype, Where where) {
  const CallSite site(where);
  check_arrays("one_hot", {&labels});
  check_indices("one_hot", "labels", labels);
  if (n < 0) throw InvalidArgument("one_hot: n is " + std::to_string(n) + "; wanted 0 or more");
  Shape shape = labels.shape();
  if (shape.size() == kMaxDims) {
    throw InvalidArgument("one_hot: labels of shape " + shape.to_string() +
                          " have as many dimensions as there can be");
  }
  shape.push_back(n);
  const NDArray source = labels.detach(), y = make_result(labels, shape, dtype);
  auto* kernel = kernel_for<OneHotKernel>("one_hot", labels);
  array_push("one_hot", OpCost::per_element, {source}, {y},
             [=](const KernelContext& context) { kernel(context, source, y); });
  return y;
}

HEDDLE_OPERATORS(indexing) {
  table.family("Indexing");
  table.add("take", take,
            {"The entries of x at indices along `axis`, negative ones from the end. The axes of indices "
             "replace that axis.",
             {"x", {"indices", DTypes::integers}, {"axis", 0}},
             "that of x",
             kDifferentiable});
  table.add("one_hot", one_hot,
            {"Shape of labels + (num_classes,): 1 at each label, 0 elsewhere.",
             {{"labels", DTypes::integers}, "num_classes", {"dtype", DType::f32}},
             "`dtype`"});
}

}  // namespace heddle
