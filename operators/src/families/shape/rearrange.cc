// Operators that reorder axes and elements, and that repeat elements.
#include "families/shape/rearrange.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <heddle/elementwise.h>
#include <heddle/rearrange.h>
#include <heddle/shape_ops.h>

#include "core/operator.h"
#include "core/operator_table.h"

namespace heddle {

using namespace operators_detail;

namespace {

Dims identity(int ndim) {
  Dims axes;
  for (int axis = 0; axis < ndim; ++axis) axes.push_back(axis);
  return axes;
}

// The axes counted from the front. Throws InvalidArgument for one out of range or given twice.
Dims distinct_axes(const char* op, const Dims& given, const Shape& shape) {
  Dims axes;
  for (const std::int64_t axis : given) {
    const int at = ndarray_detail::axis_of(op, axis, shape);
    if (std::find(axes.begin(), axes.end(), at) != axes.end())
      throw InvalidArgument(std::string(op) + ": axis " + std::to_string(at) + " is given twice");
    axes.push_back(at);
  }
  return axes;
}

NDArray with_axes_in_front(const char* op, const NDArray& x, int ndim) {
  check_arrays(op, {&x});
  NDArray y = x;
  while (y.ndim() < ndim) y = expand_dims(y, 0);
  return y;
}

// An array as (outer, size, inner), where `size` is that of the axis.
struct Blocks {
  Blocks(const Shape& shape, int axis) : size(shape[axis]) {
    for (int d = 0; d < axis; ++d) outer *= shape[d];
    for (int d = axis + 1; d < shape.size(); ++d) inner *= shape[d];
  }
  std::int64_t outer = 1, size, inner = 1;
};

// Repeats the entries along an axis: with `each` every entry `copies` times before the next one, else all
// entries `copies` times.
NDArray repeated(const char* op, const NDArray& x, int axis, std::int64_t copies, bool each) {
  const Blocks blocks(x.shape(), axis);
  Shape shape = x.shape();
  if (__builtin_mul_overflow(shape[axis], copies, &shape[axis]))
    throw InvalidArgument(std::string(op) + ": a size beyond 2^63");
  const std::int64_t outer = each ? blocks.outer * blocks.size : blocks.outer;
  const std::int64_t inner = each ? blocks.inner : blocks.size * blocks.inner;
  const NDArray single = reshape(x, {outer, 1, inner});
  return reshape(broadcast_to(single, {outer, copies, inner}), shape);
}

void check_count(const char* op, const char* argument, std::int64_t count) {
  if (count >= 0) return;
  throw InvalidArgument(std::string(op) + ": " + argument + " is " + std::to_string(count) +
                        "; wanted 0 or more");
}

// The array to repeat along an axis, flattened if no axis is given.
NDArray repeatable(const NDArray& x, std::optional<int>& axis) {
  check_arrays("repeat", {&x});
  if (axis) {
    axis = ndarray_detail::axis_of("repeat", *axis, x.shape());
    return x;
  }
  axis = 0;
  return reshape(x, {-1});
}

NDArray rolled(const NDArray& x, int axis, std::int64_t shift) {
  const std::int64_t size = x.shape()[axis];
  if (size == 0) return x;
  const std::int64_t first = (size - shift % size) % size;
  if (first == 0) return x;
  return concat({slice(x, axis, {.begin = first}), slice(x, axis, {.end = first})}, axis);
}

}  // namespace

NDArray swapaxes(const NDArray& x, int axis1, int axis2, Where where) {
  const CallSite site(where);
  check_arrays("swapaxes", {&x});
  Dims axes = identity(x.ndim());
  std::swap(axes[ndarray_detail::axis_of("swapaxes", axis1, x.shape())],
            axes[ndarray_detail::axis_of("swapaxes", axis2, x.shape())]);
  return transpose(x, axes);
}

NDArray moveaxis(const NDArray& x, Dims source, Dims destination, Where where) {
  const CallSite site(where);
  check_arrays("moveaxis", {&x});
  if (source.size() != destination.size()) {
    throw InvalidArgument("moveaxis: " + std::to_string(source.size()) + " axes for " +
                          std::to_string(destination.size()) + " places");
  }
  const Dims from = distinct_axes("moveaxis", source, x.shape());
  const Dims to = distinct_axes("moveaxis", destination, x.shape());
  Dims axes = Dims::filled(x.ndim(), -1);
  for (int i = 0; i < from.size(); ++i) axes[static_cast<int>(to[i])] = from[i];
  int next = 0;
  for (int d = 0; d < x.ndim(); ++d) {
    if (axes[d] >= 0) continue;
    while (std::find(from.begin(), from.end(), next) != from.end()) ++next;
    axes[d] = next++;
  }
  return transpose(x, axes);
}

NDArray flip(const NDArray& x, Dims given, Where where) {
  const CallSite site(where);
  check_arrays("flip", {&x});
  NDArray y = x;
  for (const std::int64_t axis : given.empty() ? identity(x.ndim()) : distinct_axes("flip", given, x.shape()))
    y = slice(y, static_cast<int>(axis), {.step = -1});
  return y;
}

NDArray rot90(const NDArray& x, std::int64_t k, Dims given, Where where) {
  const CallSite site(where);
  check_arrays("rot90", {&x});
  const Dims axes = distinct_axes("rot90", given, x.shape());
  if (axes.size() != 2) throw InvalidArgument("rot90: " + std::to_string(axes.size()) + " axes; wanted 2");
  const int first = static_cast<int>(axes[0]), second = static_cast<int>(axes[1]);
  switch ((k % 4 + 4) % 4) {
    case 1:
      return swapaxes(flip(x, {second}), first, second);
    case 2:
      return flip(x, axes);
    case 3:
      return flip(swapaxes(x, first, second), {second});
    default:
      return x;
  }
}

NDArray atleast_1d(const NDArray& x, Where where) {
  const CallSite site(where);
  return with_axes_in_front("atleast_1d", x, 1);
}

NDArray atleast_2d(const NDArray& x, Where where) {
  const CallSite site(where);
  return with_axes_in_front("atleast_2d", x, 2);
}

NDArray atleast_3d(const NDArray& x, Where where) {
  const CallSite site(where);
  const NDArray y = with_axes_in_front("atleast_3d", x, 2);
  return y.ndim() > 2 ? y : expand_dims(y, -1);
}

std::vector<NDArray> broadcast_arrays(const std::vector<NDArray>& arrays, Where where) {
  const CallSite site(where);
  check_arrays("broadcast_arrays", arrays);
  Shape shape;
  for (const NDArray& array : arrays) shape = broadcast_for("broadcast_arrays", shape, array.shape());
  std::vector<NDArray> results;
  for (const NDArray& array : arrays) results.push_back(broadcast_to(array, shape));
  return results;
}

NDArray block(const std::vector<std::vector<NDArray>>& rows, Where where) {
  const CallSite site(where);
  int axes = 2;
  for (const std::vector<NDArray>& row : rows) {
    check_arrays("block", row);
    for (const NDArray& array : row) axes = std::max(axes, array.ndim());
  }
  const auto with_axes = [&](const NDArray& array) {
    Dims shape = Dims::filled(axes - array.ndim(), 1);
    for (const std::int64_t length : array.shape()) shape.push_back(length);
    return reshape(array, shape);
  };
  return ndarray_detail::in_name_of("block", [&] {
    std::vector<NDArray> whole;
    for (const std::vector<NDArray>& row : rows) {
      std::vector<NDArray> parts;
      for (const NDArray& array : row) parts.push_back(with_axes(array));
      whole.push_back(concat(parts, axes - 1));
    }
    return concat(whole, axes - 2);
  });
}

std::vector<NDArray> meshgrid(const std::vector<NDArray>& arrays, bool xy, Where where) {
  const CallSite site(where);
  check_arrays("meshgrid", arrays);
  const auto count = static_cast<int>(arrays.size());
  if (count > kMaxDims)
    throw InvalidArgument("meshgrid: " + std::to_string(count) + " arrays; wanted " +
                          std::to_string(kMaxDims) + " at most");
  const auto axis_of_grid = [&](int i) { return xy && count > 1 && i < 2 ? 1 - i : i; };
  Shape grid = Dims::filled(count, 1);
  for (int i = 0; i < count; ++i) {
    const NDArray& array = arrays[static_cast<std::size_t>(i)];
    if (array.ndim() > 1)
      throw InvalidArgument("meshgrid: an array of shape " + array.shape().to_string() + "; wanted one axis");
    grid[axis_of_grid(i)] = array.size();
  }
  std::vector<NDArray> results;
  for (int i = 0; i < count; ++i) {
    NDArray line = with_axes_in_front("meshgrid", arrays[static_cast<std::size_t>(i)], axis_of_grid(i) + 1);
    while (line.ndim() < count) line = expand_dims(line, -1);
    results.push_back(broadcast_to(line, grid));
  }
  return results;
}

NDArray roll(const NDArray& x, Dims shift, Dims axes, Where where) {
  const CallSite site(where);
  check_arrays("roll", {&x});
  if (axes.empty()) {
    if (shift.size() != 1)
      throw InvalidArgument("roll: " + std::to_string(shift.size()) + " shifts without axes; wanted one");
    return copy(reshape(rolled(reshape(x, {-1}), 0, shift[0]), x.shape()));
  }
  if (shift.size() != axes.size() && shift.size() != 1)
    throw InvalidArgument("roll: " + std::to_string(shift.size()) + " shifts for " +
                          std::to_string(axes.size()) + " axes");
  NDArray y = x;
  for (int i = 0; i < axes.size(); ++i)
    y = rolled(y, ndarray_detail::axis_of("roll", axes[i], x.shape()), shift[shift.size() == 1 ? 0 : i]);
  return y.storage() == x.storage() ? copy(y) : y;
}

NDArray tile(const NDArray& x, Dims reps, Where where) {
  const CallSite site(where);
  check_arrays("tile", {&x});
  for (const std::int64_t copies : reps) check_count("tile", "a number of copies", copies);
  NDArray y = with_axes_in_front("tile", x, reps.size());
  const int added = y.ndim() - reps.size();
  for (int i = 0; i < reps.size(); ++i)
    if (reps[i] != 1) y = repeated("tile", y, added + i, reps[i], false);
  return y.storage() == x.storage() ? copy(y) : y;
}

NDArray operators_detail::repeat_all(const NDArray& given, std::int64_t repeats, std::optional<int> axis,
                                     Where where) {
  const CallSite site(where);
  const NDArray x = repeatable(given, axis);
  check_count("repeat", "repeats", repeats);
  const NDArray y = repeated("repeat", x, *axis, repeats, true);
  return y.storage() == given.storage() ? copy(y) : y;
}

NDArray repeat(const NDArray& given, const std::vector<std::int64_t>& repeats, std::optional<int> axis,
               Where where) {
  const CallSite site(where);
  if (repeats.size() == 1) return repeat(given, repeats.front(), axis);
  const NDArray x = repeatable(given, axis);
  const std::int64_t size = x.shape()[*axis];
  if (static_cast<std::int64_t>(repeats.size()) != size)
    throw InvalidArgument("repeat: " + std::to_string(repeats.size()) + " repeats for " +
                          std::to_string(size) + " entries");
  std::vector<std::int64_t> indices;
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    check_count("repeat", "a number of repeats", repeats[i]);
    indices.insert(indices.end(), static_cast<std::size_t>(repeats[i]), static_cast<std::int64_t>(i));
  }
  const EngineScope scope(x.engine());
  const auto count = static_cast<std::int64_t>(indices.size());
  return take(x, array(indices, {count}, x.device()), *axis);
}

namespace operators_detail {
namespace {

void register_orders(OperatorTable& table) {
  const char* same = "that of x";
  table.add("swapaxes", swapaxes,
            {"x with two axes exchanged. A view.", {"x", "axis1", "axis2"}, same, kDifferentiable});
  table.add("moveaxis", moveaxis,
            {"x with axis source[i] at place destination[i], the others in their order. A view.",
             {"x", "source", "destination"},
             same,
             kDifferentiable});
  table.add("flip", flip,
            {"x reversed along `axis`, an axis or several; None: all. A view.",
             {"x", {"axis", kNone}},
             same,
             kDifferentiable});
  table.add("rot90",
            +[](const NDArray& x, std::int64_t k, Pair axes, Where where) {
              return rot90(x, k, {axes[0], axes[1]}, where);
            },
            {"x after k quarter turns from the first of two axes to the second. A view.",
             {"x", {"k", 1}, {"axes", Pair{0, 1}}},
             same,
             kDifferentiable});
  table.add(
      "roll", roll,
      {"x with element i at place i + shift, around the end, along `axis`, an axis or several; None: of "
       "the flattened array.",
       {"x", "shift", {"axis", kNone}},
       same,
       kDifferentiable});
}

void register_ranks(OperatorTable& table) {
  const char* same = "that of x";
  table.add("atleast_1d", atleast_1d,
            {"x, or of a scalar an array with one axis. A view.", {"x"}, same, kDifferentiable});
  table.add("atleast_2d", atleast_2d,
            {"x with axes of size 1 in front, up to two axes. A view.", {"x"}, same, kDifferentiable});
  table.add("atleast_3d", atleast_3d,
            {"x with axes of size 1 up to three axes: (n) becomes (1, n, 1) and (m, n) becomes (m, n, 1). A "
             "view.",
             {"x"},
             same,
             kDifferentiable});
}

void register_repetition(OperatorTable& table) {
  constexpr static const char* kIndexing[] = {"xy", "ij"};
  table.add("broadcast_arrays", broadcast_arrays,
            {"The arrays repeated to the shape that they broadcast to. Views.",
             {"arrays"},
             "that of arrays",
             kDifferentiable});
  table.add(
      "meshgrid",
      +[](const std::vector<NDArray>& arrays, const std::string& indexing, Where where) {
        return meshgrid(arrays, indexing == "xy", where);
      },
      {"Of arrays with one axis: array i varies along axis i of a grid; with 'xy' the first two axes are "
       "exchanged. Views.",
       {"arrays", {"indexing", "xy", kIndexing}},
       "that of arrays",
       kDifferentiable});
  table.add("tile", tile,
            {"x repeated reps[i] times along axis i.", {"x", "reps"}, "that of x", kDifferentiable});
  table.add(
      "repeat",
      +[](const NDArray& x, const Operand& repeats, std::optional<int> axis, Where where) {
        const CallSite site(where);
        if (const auto count = count_in(repeats)) return repeat(x, *count, axis, where);
        return repeat(x, integers_in("repeat", "repeats", repeats), axis, where);
      },
      {"Each entry along `axis` so many times; None: of the flattened array. The call waits for repeats "
       "in an array.",
       {"x", {"repeats", DTypes::integers}, {"axis", kNone}},
       "that of x",
       kDifferentiable});
}

}  // namespace

}  // namespace operators_detail

HEDDLE_OPERATORS(rearrange) {
  table.family("Shapes, joining and copies");
  register_orders(table);
  register_ranks(table);
  register_repetition(table);
}

}  // namespace heddle
