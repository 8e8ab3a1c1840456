#include <algorithm>
#include <array>
#include <string>

#include <heddle/elementwise.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "autograd/view_gradient.h"
#include "core/operator.h"
#include "core/operator_table.h"

namespace heddle {

using namespace operators_detail;

namespace {

NDArray in_shape(const char* op, const NDArray& x, const Shape& shape) {
  return ndarray_detail::in_name_of(op, [&] { return x.contiguous().view_as(shape); });
}

// Records on the tape that y has the elements of x in the same order; returns y.
NDArray recorded(const char* op, NDArray y, const NDArray& x) {
  record_elements(op, y, x);
  return y;
}

// The position of a new axis in an array of `shape`, counted from the front. Throws InvalidArgument if it is
// out of range.
int new_axis(const char* op, std::int64_t axis, const Shape& shape) {
  const int ndim = shape.size();
  if (ndim == kMaxDims) {
    throw InvalidArgument(std::string(op) + ": an array of shape " + shape.to_string() +
                          " has as many dimensions as there can be");
  }
  if (axis < -ndim - 1 || axis > ndim) {
    throw InvalidArgument(std::string(op) + ": axis " + std::to_string(axis) + " for shape " +
                          shape.to_string() + "; wanted " + std::to_string(-ndim - 1) + " to " +
                          std::to_string(ndim));
  }
  return static_cast<int>(axis < 0 ? axis + ndim + 1 : axis);
}

Shape without_axes(const Shape& shape, const std::array<bool, kMaxDims>& dropped) {
  Shape rest;
  for (int axis = 0; axis < shape.size(); ++axis) {
    if (!dropped[static_cast<std::size_t>(axis)]) rest.push_back(shape[axis]);
  }
  return rest;
}

// A view of x without the `dropped` axes, which have size 1. The other axes keep their strides.
NDArray squeezed(const NDArray& x, const std::array<bool, kMaxDims>& dropped) {
  return x.detach().view(without_axes(x.shape(), dropped), without_axes(x.strides(), dropped), x.offset());
}

// The shape of the joined arrays. Throws InvalidArgument unless their shapes agree off the axis.
Shape joined_shape(const std::vector<NDArray>& arrays, int axis) {
  Shape shape = arrays.front().shape();
  std::int64_t length = 0;
  for (const NDArray& array : arrays) {
    bool fits = array.ndim() == shape.size();
    for (int d = 0; fits && d < shape.size(); ++d) fits = d == axis || array.shape()[d] == shape[d];
    if (!fits) {
      throw InvalidArgument("concat: shapes " + shape.to_string() + " and " + array.shape().to_string() +
                            " differ off axis " + std::to_string(axis));
    }
    length += array.shape()[axis];
  }
  shape[axis] = length;
  return shape;
}

void check_list(const char* op, const std::vector<NDArray>& arrays) {
  if (arrays.empty()) throw InvalidArgument(std::string(op) + ": no arrays");
  check_arrays(op, arrays);
}

struct Piece {
  Slice range;
  DType dtype;
  bool wanted;
};

void record_concat(NDArray& y, const std::vector<NDArray>& arrays, const std::vector<Piece>& pieces,
                   int axis) {
  if (std::none_of(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.wanted; })) return;
  record_op("concat", y, arrays, {}, [pieces, axis](const NDArray& g) {
    std::vector<NDArray> gradients;
    for (const Piece& piece : pieces) {
      if (!piece.wanted)
        gradients.emplace_back();
      else if (piece.dtype == g.dtype())
        gradients.push_back(g.slice(axis, piece.range));
      else
        gradients.push_back(g.slice(axis, piece.range).astype(piece.dtype));
    }
    return gradients;
  });
}

}  // namespace

NDArray reshape(const NDArray& x, Shape shape, Where where) {
  const CallSite site(where);
  check_arrays("reshape", {&x});
  return recorded("reshape", in_shape("reshape", x.detach(), shape), x);
}

NDArray flatten(const NDArray& x, int from_axis, Where where) {
  const CallSite site(where);
  check_arrays("flatten", {&x});
  if (from_axis < 0 || from_axis > x.ndim()) {
    throw InvalidArgument("flatten: from_axis is " + std::to_string(from_axis) + "; wanted 0 to " +
                          std::to_string(x.ndim()) + " for shape " + x.shape().to_string());
  }
  Shape shape;
  std::int64_t rest = 1;
  for (int d = 0; d < x.ndim(); ++d) {
    if (d < from_axis)
      shape.push_back(x.shape()[d]);
    else
      rest *= x.shape()[d];
  }
  shape.push_back(rest);
  return recorded("flatten", in_shape("flatten", x.detach(), shape), x);
}

NDArray transpose(const NDArray& x, Where where) {
  const CallSite site(where);
  check_arrays("transpose", {&x});
  Dims axes;
  for (int axis = x.ndim() - 1; axis >= 0; --axis) axes.push_back(axis);
  return transpose(x, axes);
}

NDArray transpose(const NDArray& x, Dims axes, Where where) {
  const CallSite site(where);
  check_arrays("transpose", {&x});
  NDArray y = ndarray_detail::in_name_of("transpose", [&] { return x.detach().permuted(axes); });
  record_permuted("transpose", y, x, axes);
  return y;
}

NDArray broadcast_to(const NDArray& x, Shape shape, Where where) {
  const CallSite site(where);
  check_arrays("broadcast_to", {&x});
  NDArray y = ndarray_detail::in_name_of("broadcast_to", [&] { return x.detach().broadcast_view(shape); });
  record_broadcast("broadcast_to", y, x);
  return y;
}

NDArray expand_dims(const NDArray& x, int axis, Where where) {
  const CallSite site(where);
  check_arrays("expand_dims", {&x});
  const int at = new_axis("expand_dims", axis, x.shape());
  Shape shape;
  Strides strides;
  for (int d = 0; d <= x.ndim(); ++d) {
    if (d == at) shape.push_back(1), strides.push_back(1);
    if (d < x.ndim()) shape.push_back(x.shape()[d]), strides.push_back(x.strides()[d]);
  }
  return recorded("expand_dims", x.detach().view(shape, strides, x.offset()), x);
}

NDArray squeeze(const NDArray& x, Dims axes, Where where) {
  const CallSite site(where);
  check_arrays("squeeze", {&x});
  std::array<bool, kMaxDims> dropped{};
  for (std::int64_t given : axes) {
    const int axis = ndarray_detail::axis_of("squeeze", given, x.shape());
    if (x.shape()[axis] != 1) {
      throw InvalidArgument("squeeze: axis " + std::to_string(given) + " of shape " + x.shape().to_string() +
                            " has not size 1");
    }
    dropped[static_cast<std::size_t>(axis)] = true;
  }
  for (int d = 0; axes.empty() && d < x.ndim(); ++d) dropped[static_cast<std::size_t>(d)] = x.shape()[d] == 1;
  return recorded("squeeze", squeezed(x, dropped), x);
}

NDArray slice(const NDArray& x, int given, Slice range, Where where) {
  const CallSite site(where);
  check_arrays("slice", {&x});
  const int axis = ndarray_detail::axis_of("slice", given, x.shape());
  NDArray y = x.detach().slice(axis, range);
  record_slice("slice", y, x, axis, range);
  return y;
}

NDArray concat(const std::vector<NDArray>& arrays, int given, Where where) {
  const CallSite site(where);
  check_list("concat", arrays);
  const int axis = ndarray_detail::axis_of("concat", given, arrays.front().shape());
  const Shape shape = joined_shape(arrays, axis);
  DType dtype = arrays.front().dtype();
  for (const NDArray& array : arrays) dtype = promote(dtype, array.dtype());
  NDArray y = make_result(arrays.front(), shape, dtype);
  std::vector<Piece> pieces;
  std::int64_t begin = 0;
  for (const NDArray& array : arrays) {
    const Slice range{begin, begin + array.shape()[axis]};
    y.slice(axis, range).assign(array.detach());
    pieces.push_back({range, array.dtype(), recording({&array})});
    begin = *range.end;
  }
  record_concat(y, arrays, pieces, axis);
  return y;
}

NDArray stack(const std::vector<NDArray>& arrays, int axis, Where where) {
  const CallSite site(where);
  check_list("stack", arrays);
  const int at = new_axis("stack", axis, arrays.front().shape());
  std::vector<NDArray> expanded;
  for (const NDArray& array : arrays) {
    if (array.shape() != arrays.front().shape()) {
      throw InvalidArgument("stack: shapes " + arrays.front().shape().to_string() + " and " +
                            array.shape().to_string() + " differ");
    }
    expanded.push_back(expand_dims(array, at));
  }
  return concat(expanded, at);
}

NDArray cast(const NDArray& x, DType dtype, Where where) {
  const CallSite site(where);
  check_arrays("cast", {&x});
  if (x.dtype() == dtype) return x;
  NDArray y = x.detach().astype(dtype);
  return is_floating(dtype) ? recorded("cast", std::move(y), x) : y;
}

NDArray contiguous(const NDArray& x, Where where) {
  const CallSite site(where);
  check_arrays("contiguous", {&x});
  return x.is_contiguous() ? x : copy(x);
}

NDArray copy(const NDArray& x, Where where) {
  const CallSite site(where);
  check_arrays("copy", {&x});
  return x.copy();
}

NDArray copy_to(const NDArray& x, Device device, Where where) {
  const CallSite site(where);
  check_arrays("copy_to", {&x});
  return x.copy_to(device);
}

namespace operators_detail {
namespace {

void register_views(OperatorTable& table) {
  const char* same = "that of x";
  table.add("reshape", reshape,
            {"The elements in row-major order in another shape, of which one dimension may be -1. A view of "
             "a contiguous x, else a copy.",
             {"x", "shape"},
             same,
             kDifferentiable});
  table.add("flatten", flatten,
            {"The axes from `from_axis` on as one. A view of a contiguous x, else a copy.",
             {"x", {"from_axis", 1}},
             same,
             kDifferentiable});
  table.add("transpose",
            +[](const NDArray& x, std::optional<Dims> axes, Where where) {
              return axes ? transpose(x, *axes, where) : transpose(x, where);
            },
            {"Axis i of the result is axis axes[i] of x; None: the axes reversed. A view.",
             {"x", {"axes", kNone}},
             same,
             kDifferentiable});
  table.add("broadcast_to", broadcast_to,
            {"x repeated to a larger shape. A view.", {"x", "shape"}, same, kDifferentiable});
  table.add("expand_dims", expand_dims,
            {"x with a new axis of size 1 at `axis`. A view.", {"x", "axis"}, same, kDifferentiable});
  table.add("squeeze", squeeze,
            {"x without these axes, which have size 1; None: without all such. A view.",
             {"x", {"axis", kNone}},
             same,
             kDifferentiable});
  table.add("slice",
            +[](const NDArray& x, int axis, std::optional<std::int64_t> start,
                std::optional<std::int64_t> stop, std::int64_t step, Where where) {
              return slice(x, axis, {start, stop, step}, where);
            },
            {"x[start:stop:step] along `axis`, with Python's meaning. A view.",
             {"x", "axis", {"start", kNone}, {"stop", kNone}, {"step", 1}},
             same,
             kDifferentiable});
}

void register_joining(OperatorTable& table) {
  table.add("concat", concat,
            {"Arrays one after another along an axis that they have.",
             {"arrays", {"axis", 0}},
             "common",
             kDifferentiable});
  table.add("stack", stack,
            {"Arrays of one shape along a new axis.", {"arrays", {"axis", 0}}, "common", kDifferentiable});
}

void register_copying(OperatorTable& table) {
  table.add("cast", cast,
            {"x as another dtype; x itself if it has it. A gradient passes between floating dtypes.",
             {"x", "dtype"},
             "`dtype`",
             kDifferentiable});
  table.add("contiguous", contiguous,
            {"x itself if it is row-major without gaps, else a copy that is.",
             {"x"},
             "that of x",
             kDifferentiable});
  table.add("copy", copy, {"A contiguous copy.", {"x"}, "that of x", kDifferentiable});
  table.add("copy_to", copy_to,
            {"A contiguous copy on a device.", {"x", "device"}, "that of x", kDifferentiable});
}

}  // namespace

}  // namespace operators_detail

HEDDLE_OPERATORS(shape_ops) {
  table.family("Shapes, joining and copies");
  register_views(table);
  register_joining(table);
  register_copying(table);
}

}  // namespace heddle
