// Operators on diagonals and triangles.
#include <algorithm>
#include <string>
#include <vector>

#include <heddle/array_op.h>
#include <heddle/rearrange.h>
#include <heddle/reduce.h>

#include "autograd/record.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/elementwise/kernels.h"

namespace heddle {

using namespace operators_detail;

namespace {

NDArray diagonal_view(const NDArray& x, std::int64_t given, int axis1, int axis2) {
  const std::int64_t rows = x.shape()[axis1], columns = x.shape()[axis2];
  const std::int64_t offset = std::clamp(given, -rows, columns);
  const std::int64_t row = std::max<std::int64_t>(0, -offset), column = std::max<std::int64_t>(0, offset);
  const std::int64_t length = std::max<std::int64_t>(0, std::min(rows - row, columns - column));
  Shape shape;
  Strides strides;
  for (int d = 0; d < x.ndim(); ++d) {
    if (d == axis1 || d == axis2) continue;
    shape.push_back(x.shape()[d]);
    strides.push_back(x.strides()[d]);
  }
  shape.push_back(length);
  strides.push_back(x.strides()[axis1] + x.strides()[axis2]);
  const bool none =
      length == 0 || x.size() == 0;  // an array without elements may have no memory for an offset
  const std::int64_t first = none ? 0 : row * x.strides()[axis1] + column * x.strides()[axis2];
  return x.detach().view(shape, strides, x.offset() + first);
}

std::string short_of_axes(const char* op, const NDArray& x) {
  return std::string(op) + ": an array of shape " + x.shape().to_string() + "; wanted two axes";
}

NDArray triangle(const char* op, const NDArray& x, std::int64_t given, bool lower) {
  check_arrays(op, {&x});
  if (x.ndim() < 2) throw InvalidArgument(short_of_axes(op, x) + " or more");
  const std::int64_t rows = x.shape()[x.ndim() - 2], columns = x.shape()[x.ndim() - 1];
  const std::int64_t k = std::clamp(given, -rows - 1, columns + 1);
  const NDArray source = x.detach();
  NDArray y = make_result(x, x.shape(), x.dtype());
  auto* kernel = kernel_for<TriangleKernel>("triangle", x);
  array_push(op, OpCost::per_element, {source}, {y},
             recordable([=](const KernelContext& context) { kernel(context, source, y, k, lower); }));
  if (recording({&x}))
    record_op(op, y, {x}, {}, [=](const NDArray& g) { return std::vector{triangle(op, g, k, lower)}; });
  return y;
}

}  // namespace

NDArray diagonal(const NDArray& x, std::int64_t offset, int given1, int given2, Where where) {
  const CallSite site(where);
  check_arrays("diagonal", {&x});
  if (x.ndim() < 2) throw InvalidArgument(short_of_axes("diagonal", x) + " or more");
  const int axis1 = ndarray_detail::axis_of("diagonal", given1, x.shape());
  const int axis2 = ndarray_detail::axis_of("diagonal", given2, x.shape());
  if (axis1 == axis2) throw InvalidArgument("diagonal: axis " + std::to_string(axis1) + " is given twice");
  NDArray y = diagonal_view(x, offset, axis1, axis2);
  if (recording({&x})) {
    const auto add = [=](const NDArray& g, const NDArray& whole) {
      NDArray part = diagonal_view(whole, offset, axis1, axis2);
      part += g;
    };
    record_part("diagonal", y, x, {}, add,
                [=](const NDArray& like_x) { return diagonal(like_x, offset, axis1, axis2); });
  }
  return y;
}

NDArray tril(const NDArray& x, std::int64_t k, Where where) {
  const CallSite site(where);
  return triangle("tril", x, k, true);
}

NDArray triu(const NDArray& x, std::int64_t k, Where where) {
  const CallSite site(where);
  return triangle("triu", x, k, false);
}

NDArray diag(const NDArray& x, std::int64_t k, Where where) {
  const CallSite site(where);
  check_arrays("diag", {&x});
  if (x.ndim() == 2) return diagonal(x, k);
  if (x.ndim() != 1) throw InvalidArgument(short_of_axes("diag", x) + " or one");
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (k < -kMost || k > kMost) throw InvalidArgument("diag: k is " + std::to_string(k));
  const std::int64_t size = x.size() + std::abs(k);
  NDArray y = make_result(x, {size, size}, x.dtype());
  y.fill(0);
  diagonal_view(y, k, 0, 1).assign(x.detach());
  if (recording({&x}))
    record_op("diag", y, {x}, {}, [k](const NDArray& g) { return std::vector{diagonal(g, k)}; });
  return y;
}

NDArray matrix_trace(const NDArray& x, std::int64_t offset, int axis1, int axis2, Where where) {
  const CallSite site(where);
  check_arrays("matrix_trace", {&x});
  return ndarray_detail::in_name_of("matrix_trace",
                                    [&] { return sum(diagonal(x, offset, axis1, axis2), {-1}); });
}

HEDDLE_OPERATORS(diagonal) {
  table.family("Shapes, joining and copies");
  const Argument k = {"k", 0}, offset = {"offset", 0}, axis1 = {"axis1", 0}, axis2 = {"axis2", 1};
  const char* same = "that of x";
  table.add("tril", tril,
            {"x with 0 above the k-th diagonal of the last two axes.", {"x", k}, same, kDifferentiable});
  table.add("triu", triu,
            {"x with 0 below the k-th diagonal of the last two axes.", {"x", k}, same, kDifferentiable});
  table.add(
      "diag", diag,
      {"Of one axis: a matrix with x on its k-th diagonal, 0 elsewhere. Of a matrix: its k-th diagonal, a "
       "view.",
       {"x", k},
       same,
       kDifferentiable});
  table.add("diagonal", diagonal,
            {"The elements of two axes whose second index is the first one plus `offset`, along a new last "
             "axis. A view.",
             {"x", offset, axis1, axis2},
             same,
             kDifferentiable});
  table.add("matrix_trace", matrix_trace,
            {"The sum of a diagonal.",
             {"x", offset, axis1, axis2},
             "that of x; i64 for integers and bool, u64 for unsigned ones",
             kDifferentiable});
}

}  // namespace heddle
