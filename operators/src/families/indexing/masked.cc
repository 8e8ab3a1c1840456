// Operators on the elements that several arrays of indices, or a mask, select.
#include <string>
#include <vector>

#include <heddle/elementwise_math.h>
#include <heddle/reduce.h>
#include <heddle/scatter.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/indexing/places.h"

namespace heddle {

using namespace operators_detail;

namespace {

void check_index_list(const NDArray& x, const std::vector<NDArray>& indices) {
  if (indices.empty() || static_cast<int>(indices.size()) > x.ndim())
    throw InvalidArgument("index_put: " + std::to_string(indices.size()) + " arrays of indices for shape " +
                          x.shape().to_string());
  for (const NDArray& one : indices) {
    check_arrays("index_put", {&x, &one});
    check_indices("index_put", "indices", one);
  }
}

void check_mask(const char* op, const NDArray& x, const NDArray& mask) {
  check_arrays(op, {&x, &mask});
  if (mask.dtype() != DType::boolean)
    throw InvalidArgument(std::string(op) + ": mask has dtype " + name_of(mask.dtype()) + "; wanted bool");
}

// The mask, broadcast to x's shape.
NDArray mask_for(const char* op, const NDArray& x, const NDArray& mask) {
  check_mask(op, x, mask);
  return ndarray_detail::in_name_of(op, [&] { return mask.detach().broadcast_view(x.shape()); });
}

// Pushes "masked_select" or "masked_scatter" with a contiguous mask and the result y.
void push_masked(const char* kernel_name, const char* op, const NDArray& mask, const NDArray& given,
                 const NDArray& y, bool exact) {
  const NDArray x = given.detach().contiguous(), to = y.detach();
  auto* kernel = kernel_for<MaskedKernel>(kernel_name, x);
  array_push(op, {mask, x, to}, {to},
             [=](const KernelContext& context) { kernel(context, op, mask, x, to, exact); });
}

NDArray scattered_by_mask(const char* op, const NDArray& x, const NDArray& mask, const NDArray& source,
                          bool exact);

// The elements of x where the mask, of x's shape, is true, then zeros up to `size`; with `exact` the mask has
// `size` true elements.
NDArray selected(const char* op, const NDArray& x, const NDArray& mask, std::int64_t size, bool exact) {
  NDArray y = make_result(x, {size}, x.dtype());
  push_masked("masked_select", op, mask, x, y, exact);
  if (!recording({&x})) return y;
  record_op(op, y, {x}, {mask}, [=](const NDArray& g) {
    const NDArray whole = make_result(g, mask.shape(), g.dtype());
    whole.fill(0);
    return std::vector{scattered_by_mask(op, whole, mask, g, exact)};
  });
  return y;
}

// x with the first elements of source, which has one axis, where the mask, of x's shape, is true.
NDArray scattered_by_mask(const char* op, const NDArray& x, const NDArray& mask, const NDArray& source,
                          bool exact) {
  NDArray y = x.detach().copy();
  push_masked("masked_scatter", op, mask, source, y, exact);
  if (!recording({&x, &source})) return y;
  const bool of_x = requires_grad(x), of_source = requires_grad(source);
  record_op(op, y, {x, source}, {mask}, [=, size = source.size()](const NDArray& g) {
    return std::vector{of_x ? where(mask, 0, g) : NDArray(),
                       of_source ? selected(op, g, mask, size, exact) : NDArray()};
  });
  return y;
}

}  // namespace

NDArray index_put(const NDArray& x, const std::vector<NDArray>& indices, const Operand& values,
                  bool accumulate, Where where) {
  const CallSite site(where);
  check_arrays("index_put", {&x});
  check_index_list(x, indices);
  Shape places;
  for (const NDArray& one : indices) places = broadcast_for("index_put", places, one.shape());
  Dims bounds;
  Shape written = places;
  std::int64_t rest = 1;
  for (int d = 0; d < x.ndim(); ++d) {
    if (d < static_cast<int>(indices.size())) {
      bounds.push_back(x.shape()[d]);
      continue;
    }
    ndarray_detail::in_name_of("index_put", [&] { written.push_back(x.shape()[d]); });
    rest *= x.shape()[d];
  }
  const std::int64_t count = element_count(places);
  const NDArray at = flat_indices("index_put", indices, bounds, places).view_as({count, 1});
  const NDArray source = reshape(scattered_values("index_put", x, values, written), {count, rest});
  const NDArray y = scattered("index_put", reshape(x, {element_count(bounds), rest}), at, source, 0,
                              accumulate ? Scatter::add : Scatter::set);
  return reshape(y, x.shape());
}

NDArray put(const NDArray& x, const NDArray& indices, const Operand& values, Where where) {
  const CallSite site(where);
  check_arrays("put", {&x, &indices});
  check_indices("put", "indices", indices);
  const NDArray source = reshape(scattered_values("put", x, values, indices.shape()), {-1});
  const NDArray y =
      scattered("put", reshape(x, {-1}), reshape(indices.detach(), {-1}), source, 0, Scatter::set);
  return reshape(y, x.shape());
}

NDArray masked_select(const NDArray& given, const NDArray& given_mask, Where where) {
  const CallSite site(where);
  check_mask("masked_select", given, given_mask);
  const Shape shape = broadcast_for("masked_select", given.shape(), given_mask.shape());
  const NDArray mask = given_mask.detach().broadcast_view(shape).contiguous();
  return selected("masked_select", broadcast_to(given, shape), mask, sum(mask).item<std::int64_t>(), true);
}

NDArray operators_detail::flat_indices(const char* op, const std::vector<NDArray>& indices,
                                       const Dims& bounds, const Shape& shape) {
  std::vector<NDArray> views;
  for (const NDArray& one : indices) views.push_back(one.detach().broadcast_view(shape));
  const NDArray y = make_result(views.front(), {element_count(shape)}, DType::i64);
  auto* kernel = kernel_for<FlatIndexKernel>("flat_index", y);
  push_op(op, views, {&y, 1}, [=](const KernelContext& context) { kernel(context, op, views, bounds, y); });
  return y;
}

NDArray masked_fill(const NDArray& x, const NDArray& given_mask, Scalar value, Where where) {
  const CallSite site(where);
  const NDArray mask = mask_for("masked_fill", x, given_mask);
  return heddle::where(mask, scattered_values("masked_fill", x, value, {}), x);
}

NDArray operators_detail::where_true(const NDArray& x) {
  const NDArray mask = x.detach() != 0;
  const auto count = sum(mask).item<std::int64_t>();
  const NDArray y = make_result(x, {x.ndim(), count}, DType::i64);
  auto* kernel = kernel_for<NonzeroKernel>("nonzero", x);
  array_push("nonzero", {mask}, {y}, [=](const KernelContext& context) { kernel(context, mask, y); });
  return y;
}

NDArray masked_scatter(const NDArray& x, const NDArray& given_mask, const NDArray& source, Where where) {
  const CallSite site(where);
  check_arrays("masked_scatter", {&x, &given_mask, &source});
  const NDArray mask = mask_for("masked_scatter", x, given_mask).contiguous();
  return scattered_by_mask("masked_scatter", x, mask, reshape(cast(source, x.dtype()), {-1}), false);
}

std::vector<NDArray> nonzero(const NDArray& x, Where where) {
  const CallSite site(where);
  check_arrays("nonzero", {&x});
  if (x.ndim() == 0) throw InvalidArgument("nonzero: a scalar has no axes; wanted an array with one or more");
  const NDArray places = where_true(x);
  std::vector<NDArray> results;
  for (int d = 0; d < x.ndim(); ++d) results.push_back(places[d]);
  return results;
}

NDArray argwhere(const NDArray& x, Where where) {
  const CallSite site(where);
  check_arrays("argwhere", {&x});
  return where_true(x).permuted({1, 0});
}

HEDDLE_OPERATORS(masked) {
  table.family("Indexing");
  const Argument indices = {"indices", DTypes::integers}, mask = {"mask", DTypes::boolean};
  const char* same = "that of x";
  table.add(
      "index_put", index_put,
      {"x with y[indices[0], indices[1], ...] = values, or with `accumulate` the sum with what is there. "
       "The indices broadcast to one shape, values to that shape and the rest of x's axes.",
       {"x", indices, "values", {"accumulate", false}},
       same,
       kDifferentiable});
  table.add("put", put,
            {"x with values at these places of the flattened array.",
             {"x", indices, "values"},
             same,
             kDifferentiable});
  table.add("masked_select", masked_select,
            {"The elements where a mask is true, along one axis; x and mask broadcast. The call waits for "
             "the mask.",
             {"x", mask},
             same,
             kDifferentiable});
  table.add("masked_fill", masked_fill,
            {"x with a value where a mask is true, which broadcasts to x.",
             {"x", mask, "value"},
             same,
             kDifferentiable});
  table.add("masked_scatter", masked_scatter,
            {"x with the elements of source, in their order, where a mask is true, which broadcasts to x.",
             {"x", mask, "source"},
             same,
             kDifferentiable});
  table.add("nonzero", nonzero,
            {"The indices of the elements that are not 0, an array for each axis. The call waits for x.",
             {"x"},
             "i64"});
  table.add(
      "argwhere", argwhere,
      {"The indices of the elements that are not 0, a row for each. The call waits for x.", {"x"}, "i64"});
}

}  // namespace heddle
