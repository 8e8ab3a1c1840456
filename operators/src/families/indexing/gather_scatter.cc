// Operators that gather and scatter elements along one axis.
#include <string>
#include <vector>

#include <heddle/elementwise_math.h>
#include <heddle/reduce.h>
#include <heddle/scatter.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/axis_last.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/elementwise/elementwise_rule.h"
#include "families/indexing/places.h"

namespace heddle {

using namespace operators_detail;

namespace {

NDArray push_gather(const char* op, const NDArray& given, const NDArray& indices, const Shape& shape,
                    int axis) {
  const NDArray x = given.detach(), at = indices.detach(), y = make_result(x, shape, x.dtype());
  auto* kernel = kernel_for<GatherKernel>("gather", x);
  array_push(op, {x, at}, {y}, [=](const KernelContext& context) { kernel(context, op, x, at, y, axis); });
  return y;
}

NDArray with_scattered(const char* op, const NDArray& x, const NDArray& indices, const NDArray& source,
                       int axis, Scatter how) {
  NDArray y = x.detach().copy();
  scatter_into(op, y, indices, source, axis, how);
  return y;
}

// Checks that x and indices have the same number of axes; returns the axis, counted from the front.
int common_axis(const char* op, const NDArray& x, const NDArray& indices, int given) {
  check_arrays(op, {&x, &indices});
  check_indices(op, "indices", indices);
  const int axis = ndarray_detail::axis_of(op, given, x.shape());
  if (x.ndim() != indices.ndim())
    throw InvalidArgument(std::string(op) + ": shapes " + x.shape().to_string() + " and " +
                          indices.shape().to_string() + " of indices have different numbers of axes");
  return axis;
}

void check_inside(const char* op, const NDArray& x, const NDArray& indices, int axis) {
  for (int d = 0; d < x.ndim(); ++d) {
    if (d == axis || indices.shape()[d] <= x.shape()[d]) continue;
    throw InvalidArgument(std::string(op) + ": indices of shape " + indices.shape().to_string() +
                          " are larger than shape " + x.shape().to_string() + " off axis " +
                          std::to_string(axis));
  }
}

// x reshaped to (1, ..., n, ..., 1), with its n elements along the axis.
NDArray along_axis(const NDArray& x, int ndim, int axis) {
  Shape shape = Dims::filled(ndim, 1);
  shape[axis] = x.size();
  return x.detach().contiguous().view_as(shape);
}

// The elements of x at the indices, on the tape.
NDArray gathered(const char* op, const NDArray& x, const NDArray& indices, const Shape& shape, int axis) {
  NDArray y = push_gather(op, x, indices, shape, axis);
  const NDArray at = indices.shape() == shape ? indices.detach() : indices.detach().broadcast_view(shape);
  record_gathered(op, y, x, at, axis);
  return y;
}

// What the backward pass of a scatter needs.
struct Written {
  const char* op;
  NDArray indices;
  Shape shape;  // shape of the source
  int axis;

  NDArray from(const NDArray& x) const { return gathered(op, x, indices, shape, axis); }
  NDArray into(const NDArray& x, const NDArray& source, Scatter how) const {
    return scattered(op, x, indices, source, axis, how);
  }
};

// If several values are written to one element, the last one stays: only it gets the gradient.
NDArray gradient_of_set(const Written& written, const NDArray& g) {
  const EngineScope scope(g.engine());
  const std::int64_t n = written.shape[written.axis];
  const NDArray order = arange(0, static_cast<double>(n), 1, DType::i64, g.device());
  const NDArray turn = along_axis(order, g.ndim(), written.axis).broadcast_view(written.shape);
  const NDArray last = written.into(zeros(g.shape(), DType::i64, g.device()), turn, Scatter::set);
  return where(written.from(last) == turn, written.from(g), 0);
}

std::vector<NDArray> gradients_of_set(const Written& written, const NDArray& g, bool of_x, bool of_source) {
  std::vector<NDArray> gradients(2);
  if (of_x) {
    const NDArray none = make_result(g, {}, g.dtype());
    none.fill(0);
    gradients[0] = written.into(g, none.broadcast_view(written.shape), Scatter::set);
  }
  if (of_source) gradients[1] = gradient_of_set(written, g);
  return gradients;
}

// The gradients of x and source for scatter_min() and scatter_max(). All values equal to the extreme share
// its gradient equally; if the extreme is NaN, all NaNs do.
std::vector<NDArray> gradients_of_extreme(const Written& written, const NDArray& g, const NDArray& x,
                                          const NDArray& source, const NDArray& y) {
  const Dtypes dtypes{g.dtype(), DType::boolean};
  const NDArray own = push_binary("same", x, y, dtypes),
                written_there = push_binary("same", source, written.from(y), dtypes);
  const NDArray count = written.into(cast(own, g.dtype()), cast(written_there, g.dtype()), Scatter::add);
  const NDArray share = g / count;
  return {where(own, share, 0), where(written_there, written.from(share), 0)};
}

void record_scatter(const char* op, NDArray& y, const NDArray& x, const NDArray& indices,
                    const NDArray& source, int axis, Scatter how) {
  if (!recording({&x, &source})) return;
  const Written written{op, indices.detach(), source.shape(), axis};
  const bool of_x = requires_grad(x), of_source = requires_grad(source);
  if (how == Scatter::set) {
    return record_op(op, y, {x, source}, {written.indices},
                     [=](const NDArray& g) { return gradients_of_set(written, g, of_x, of_source); });
  }
  if (how == Scatter::add) {
    return record_op(op, y, {x, source}, {written.indices}, [=](const NDArray& g) {
      return std::vector{of_x ? g : NDArray(), of_source ? written.from(g) : NDArray()};
    });
  }
  const NDArray a = save_for_backward(x), b = save_for_backward(source), result = save_for_backward(y);
  record_op(op, y, {x, source}, {written.indices, a, b, result}, [=](const NDArray& g) {
    std::vector<NDArray> gradients = gradients_of_extreme(written, g, a, b, result);
    if (!of_x) gradients[0] = {};
    if (!of_source) gradients[1] = {};
    return gradients;
  });
}

NDArray scatter_with(const char* op, const NDArray& x, const NDArray& indices, const Operand& source,
                     int given, Scatter how) {
  const int axis = common_axis(op, x, indices, given);
  check_inside(op, x, indices, axis);
  return scattered(op, x, indices, scattered_values(op, x, source, indices.shape()), axis, how);
}

NDArray index_with(const char* op, const NDArray& x, const NDArray& indices, const NDArray& source, int given,
                   Scatter how) {
  check_arrays(op, {&x, &indices, &source});
  check_indices(op, "indices", indices);
  const int axis = ndarray_detail::axis_of(op, given, x.shape());
  if (indices.ndim() != 1)
    throw InvalidArgument(std::string(op) + ": indices have shape " + indices.shape().to_string() +
                          "; wanted one axis");
  Shape shape = x.shape();
  shape[axis] = indices.size();
  return scattered(op, x, along_axis(indices, x.ndim(), axis), scattered_values(op, x, source, shape), axis,
                   how);
}

}  // namespace

void operators_detail::check_indices(const char* op, const char* what, const NDArray& indices) {
  if (!is_floating(indices.dtype()) && indices.dtype() != DType::boolean) return;
  throw InvalidArgument(std::string(op) + ": " + what + " have dtype " + name_of(indices.dtype()) +
                        "; wanted integers");
}

void operators_detail::scatter_into(const char* op, const NDArray& y, const NDArray& indices,
                                    const NDArray& source, int axis, Scatter how) {
  const NDArray at = indices.detach(), from = source.detach(), to = y.detach();
  auto* kernel = kernel_for<ScatterKernel>("scatter", y);
  array_push(op, {at, from, to}, {to},
             [=](const KernelContext& context) { kernel(context, op, at, from, to, axis, how); });
}

void operators_detail::record_gathered(const char* op, NDArray& y, const NDArray& x, const NDArray& indices,
                                       int axis) {
  if (!recording({&x})) return;
  const NDArray at = indices.detach();
  const auto add = [=](const NDArray& g, const NDArray& whole) {
    if (!is_half(whole.dtype())) return scatter_into(op, whole, at, g, axis, Scatter::add);
    const NDArray sums = whole.astype(DType::f32);
    scatter_into(op, sums, at, g.astype(DType::f32), axis, Scatter::add);
    whole.detach().assign(sums);
  };
  record_part(op, y, x, {at}, add,
              [=](const NDArray& like_x) { return gathered(op, like_x, at, at.shape(), axis); });
}

NDArray operators_detail::scattered_values(const char* op, const NDArray& x, const Operand& given,
                                           const Shape& shape) {
  if (given.is_array) {
    check_arrays(op, {&x, &given.array});
    return ndarray_detail::in_name_of(op, [&] { return broadcast_to(cast(given.array, x.dtype()), shape); });
  }
  const NDArray number = make_result(x, {}, x.dtype());
  number.fill(given.scalar);
  return number.broadcast_view(shape);
}

NDArray operators_detail::scattered(const char* op, const NDArray& x, const NDArray& indices,
                                    const NDArray& source, int axis, Scatter how) {
  if (is_half(x.dtype()) && how != Scatter::set)
    return cast(scattered(op, wide(x), indices, wide(source), axis, how), x.dtype());
  NDArray y = with_scattered(op, x, indices, source, axis, how);
  record_scatter(op, y, x, indices, source, axis, how);
  return y;
}

NDArray take_along_axis(const NDArray& x, const NDArray& indices, int given, Where where) {
  const CallSite site(where);
  const int axis = common_axis("take_along_axis", x, indices, given);
  Shape off_axis = x.shape(), others = indices.shape();
  off_axis[axis] = others[axis] = 1;
  Shape shape = broadcast_for("take_along_axis", off_axis, others), whole = shape;
  shape[axis] = indices.shape()[axis];
  whole[axis] = x.shape()[axis];
  const NDArray source = whole == x.shape() ? x : broadcast_to(x, whole);
  return gathered("take_along_axis", source, indices, shape, axis);
}

NDArray gather(const NDArray& x, const NDArray& indices, int given, Where where) {
  const CallSite site(where);
  const int axis = common_axis("gather", x, indices, given);
  check_inside("gather", x, indices, axis);
  return gathered("gather", x, indices, indices.shape(), axis);
}

NDArray scatter(const NDArray& x, const NDArray& indices, const Operand& source, int axis, Where where) {
  const CallSite site(where);
  return scatter_with("scatter", x, indices, source, axis, Scatter::set);
}
NDArray scatter_add(const NDArray& x, const NDArray& indices, const Operand& source, int axis, Where where) {
  const CallSite site(where);
  return scatter_with("scatter_add", x, indices, source, axis, Scatter::add);
}
NDArray scatter_min(const NDArray& x, const NDArray& indices, const Operand& source, int axis, Where where) {
  const CallSite site(where);
  return scatter_with("scatter_min", x, indices, source, axis, Scatter::min);
}
NDArray scatter_max(const NDArray& x, const NDArray& indices, const Operand& source, int axis, Where where) {
  const CallSite site(where);
  return scatter_with("scatter_max", x, indices, source, axis, Scatter::max);
}

NDArray index_add(const NDArray& x, const NDArray& indices, const NDArray& source, int axis, Where where) {
  const CallSite site(where);
  return index_with("index_add", x, indices, source, axis, Scatter::add);
}
NDArray index_copy(const NDArray& x, const NDArray& indices, const NDArray& source, int axis, Where where) {
  const CallSite site(where);
  return index_with("index_copy", x, indices, source, axis, Scatter::set);
}

HEDDLE_OPERATORS(gather_scatter) {
  table.family("Indexing");
  const Argument indices = {"indices", DTypes::integers}, last = {"axis", -1}, axis = {"axis", 0};
  const char* same = "that of x";
  table.add("take_along_axis", take_along_axis,
            {"y[i, j] = x[i, indices[i, j]] of axis 1, and so on. Off the axis both broadcast.",
             {"x", indices, last},
             same,
             kDifferentiable});
  table.add("gather", gather,
            {"take_along_axis, but off the axis indices do not broadcast and may be smaller than x.",
             {"x", indices, last},
             same,
             kDifferentiable});
  const std::string written = "x with y[indices[i, j], j] = source[i, j] of axis 0, and so on";
  const std::string twice = " Of several for one place the order is that of the indices.";
  table.add("scatter", scatter,
            {written + ". Of several for one place the last one stays.",
             {"x", indices, "source", last},
             same,
             kDifferentiable});
  table.add("scatter_add", scatter_add,
            {written + ", or rather the sum with what is there." + twice,
             {"x", indices, "source", last},
             same,
             kDifferentiable});
  table.add("scatter_min", scatter_min,
            {written + ", or rather the minimum with what is there.",
             {"x", indices, "source", last},
             same,
             kDifferentiable});
  table.add("scatter_max", scatter_max,
            {written + ", or rather the maximum with what is there.",
             {"x", indices, "source", last},
             same,
             kDifferentiable});
  table.add("index_add", index_add,
            {"x with source[i] added to entry indices[i] of `axis`, in the order of the indices.",
             {"x", indices, "source", axis},
             same,
             kDifferentiable});
  table.add("index_copy", index_copy,
            {"x with source[i] in place of entry indices[i] of `axis`. Of several for one place the last one "
             "stays.",
             {"x", indices, "source", axis},
             same,
             kDifferentiable});
}

}  // namespace heddle
