#include "families/row_sparse/row_sparse.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include <heddle/elementwise.h>
#include <heddle/operator_value.h>
#include <heddle/row_sparse.h>

#include "core/operator.h"
#include "core/operator_table.h"
#include "families/indexing/places.h"
#include "families/row_sparse/kernels.h"

namespace heddle {

using namespace operators_detail;

namespace {

std::string text_of(const NDArray& array) { return name_of(array.dtype()) + array.shape().to_string(); }

Shape with_rows(std::int64_t rows, const Shape& shape) {
  Shape result = shape;
  result[0] = rows;
  return result;
}

void check_rows_of(const char* op, const Shape& shape) {
  if (shape.size() == 0) throw InvalidArgument(std::string(op) + ": an array of shape () has no rows");
  ndarray_detail::in_name_of(op, [&] { return element_count(shape); });  // throws for negative dimensions
}

void check_row_list(const char* op, const NDArray& rows) {
  check_indices(op, "rows", rows);
  if (rows.ndim() == 1) return;
  throw InvalidArgument(std::string(op) + ": rows have shape " + rows.shape().to_string() +
                        "; wanted is one axis");
}

RowSparse converted(const RowSparse& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return {x.shape(), x.rows(), x.values().astype(dtype), x.count()};
}

// The dtype in which values of `dtype` are added up.
DType wide_dtype(DType dtype) { return is_half(dtype) ? DType::f32 : dtype; }

void add_parts(std::vector<NDArray>& arrays, const RowSparse& x) {
  arrays.insert(arrays.end(), {x.rows(), x.values(), x.count()});
}

template <class F>
void push_to(const char* name, std::initializer_list<NDArray> reads, const RowSparse& y, F&& fn) {
  array_push(name, reads, {y.rows(), y.values(), y.count()}, std::forward<F>(fn));
}

// Throws InvalidArgument if x does not match the first array.
void check_alike(const char* op, const RowSparse& first, const RowSparse& x) {
  check_arrays(op, {&first.values(), &x.values()});
  if (x.shape() == first.shape() && x.dtype() == first.dtype()) return;
  throw InvalidArgument(std::string(op) + ": row-sparse arrays of " + name_of(first.dtype()) +
                        first.shape().to_string() + " and " + name_of(x.dtype()) + x.shape().to_string());
}

void check_defined(const char* op, const RowSparse& x) {
  if (!x.defined()) ndarray_detail::refuse_undefined(op);
}

}  // namespace

RowSparse operators_detail::make_row_sparse(const NDArray& like, const Shape& shape, DType dtype,
                                            std::int64_t capacity) {
  const std::int64_t room = std::min(capacity, shape[0]);
  return {shape, make_result(like, {room}, DType::i64), make_result(like, with_rows(room, shape), dtype),
          make_result(like, {1}, DType::i64)};
}

RowSparse operators_detail::push_row_sparse(const char* name, const char* op, const NDArray& rows,
                                            const NDArray& values, const Shape& shape) {
  const DType dtype = values.dtype();
  if (is_half(dtype))
    return converted(push_row_sparse(name, op, rows, values.astype(DType::f32), shape), dtype);
  auto* kernel = kernel_for<RowSparseKernel>("row_sparse", values);
  const NDArray at = rows.detach(), source = values.detach().contiguous();
  const RowSparse y = make_row_sparse(values, shape, dtype, rows.size());
  push_to(name, {at, source}, y, [=](const KernelContext& context) { kernel(context, op, at, source, y); });
  return y;
}

RowSparse::RowSparse(Shape shape, NDArray rows, NDArray values, NDArray count, Where where)
    : shape_(std::move(shape)) {
  const CallSite site(where);
  check_arrays("RowSparse", {&values, &rows, &count});
  check_floating("RowSparse", values);
  check_rows_of("RowSparse", shape_);
  const bool rows_fit = values.ndim() == shape_.size() &&
                        values.shape() == with_rows(values.shape()[0], shape_) &&
                        rows.shape() == Shape{values.shape()[0]} && count.size() == 1;
  const bool whole = rows.dtype() == DType::i64 && count.dtype() == DType::i64;
  if (!rows_fit || !whole || !values.is_contiguous() || !rows.is_contiguous()) {
    throw InvalidArgument(
        "RowSparse: of shape " + shape_.to_string() + " with rows " + text_of(rows) + ", values " +
        text_of(values) + " and count " + text_of(count) + "; wanted are contiguous rows i64(k,), values " +
        (shape_.size() == 1 ? "(k,)" : "(k, " + with_rows(0, shape_).to_string().substr(4)) +
        " and count i64(1,)");
  }
  rows_ = rows.detach(), values_ = values.detach(), count_ = count.detach();
}

void RowSparse::wait() const {
  checked("wait");
  for (const NDArray* part : {&rows_, &values_, &count_}) part->wait();
}

RowSparse RowSparse::trimmed(Where where) const {
  const CallSite site(where);
  const auto count = checked("trimmed").count_.item<std::int64_t>();
  if (count < 0 || count > capacity()) {
    throw Error("trimmed: a row-sparse array has " + std::to_string(count) + " rows and room for " +
                std::to_string(capacity()));
  }
  const Slice present{0, count};
  return {shape_, rows_.slice(0, present), values_.slice(0, present), count_};
}

RowSparse row_sparse(const NDArray& rows, const NDArray& values, const Shape& shape, Where where) {
  const CallSite site(where);
  check_arrays("row_sparse", {&values, &rows});
  check_floating("row_sparse", values);
  check_row_list("row_sparse", rows);
  check_rows_of("row_sparse", shape);
  const Shape wanted = with_rows(rows.size(), shape);
  if (values.shape() != wanted) {
    throw InvalidArgument("row_sparse: values of shape " + values.shape().to_string() + " for " +
                          std::to_string(rows.size()) + " rows of an array of shape " + shape.to_string() +
                          "; wanted is " + wanted.to_string());
  }
  return push_row_sparse("row_sparse", "row_sparse", rows, values, shape);
}

RowSparse retain(const NDArray& x, const NDArray& rows, Where where) {
  const CallSite site(where);
  check_arrays("retain", {&x, &rows});
  check_floating("retain", x);
  check_rows_of("retain", x.shape());
  check_row_list("retain", rows);
  auto* kernel = kernel_for<RetainKernel>("retain", x);
  const NDArray source = x.detach().contiguous(), at = rows.detach();
  const RowSparse y = make_row_sparse(x, x.shape(), x.dtype(), rows.size());
  push_to("retain", {source, at}, y, [=](const KernelContext& context) { kernel(context, source, at, y); });
  return y;
}

RowSparse retain(const RowSparse& x, const NDArray& rows, Where where) {
  const CallSite site(where);
  check_defined("retain", x);
  check_arrays("retain", {&x.values(), &rows});
  check_row_list("retain", rows);
  auto* kernel = kernel_for<RetainRowsKernel>("retain_rows", x.values());
  const NDArray at = rows.detach();
  const RowSparse y = make_row_sparse(x.values(), x.shape(), x.dtype(), std::min(rows.size(), x.capacity()));
  push_to("retain", {x.rows(), x.values(), x.count(), at}, y,
          [=](const KernelContext& context) { kernel(context, x, at, y); });
  return y;
}

RowSparse sum(const std::vector<RowSparse>& arrays, Where where) {
  const CallSite site(where);
  if (arrays.empty()) throw InvalidArgument("sum: of no row-sparse arrays");
  for (const RowSparse& x : arrays) check_defined("sum", x);
  const RowSparse& first = arrays.front();
  const DType dtype = wide_dtype(first.dtype());
  auto* kernel = kernel_for<SumRowsKernel>("sum_rows", first.values());
  std::vector<RowSparse> sources;
  std::vector<NDArray> reads;
  std::int64_t capacity = 0;
  for (const RowSparse& x : arrays) {
    check_alike("sum", first, x);
    sources.push_back(converted(x, dtype));
    add_parts(reads, sources.back());
    capacity = std::min(capacity + x.capacity(), first.shape()[0]);
  }
  const RowSparse y = make_row_sparse(first.values(), first.shape(), dtype, capacity);
  std::vector<NDArray> writes;
  add_parts(writes, y);
  push_op("sum_rows", reads, writes, [=](const KernelContext& context) { kernel(context, sources, y); });
  return converted(y, first.dtype());
}

RowSparse scale(const RowSparse& x, double factor, Where where) {
  const CallSite site(where);
  check_defined("scale", x);
  return {x.shape(), x.rows(), multiply(x.values(), factor), x.count()};
}

NDArray to_dense(const RowSparse& x, Where where) {
  const CallSite site(where);
  check_defined("to_dense", x);
  const NDArray dense = make_result(x.values(), x.shape(), x.dtype());
  dense.fill(0);
  add_rows(dense, x);
  return dense;
}

void add_rows(const NDArray& dense, const RowSparse& x, Where where) {
  const CallSite site(where);
  check_defined("add_rows", x);
  check_arrays("add_rows", {&dense, &x.values()});
  if (dense.grad_meta()) dense.grad_meta()->check_target("add_rows");
  if (dense.shape() != x.shape() || dense.dtype() != x.dtype() || !dense.is_contiguous()) {
    throw InvalidArgument("add_rows: to " + text_of(dense) + " of strides " + dense.strides().to_string() +
                          "; wanted is a contiguous " + name_of(x.dtype()) + x.shape().to_string());
  }
  auto* kernel = kernel_for<AddRowsKernel>("add_rows", dense);
  const NDArray target = dense.detach();
  array_push("add_rows", {x.rows(), x.values(), x.count(), target}, {target},
             [=](const KernelContext& context) { kernel(context, target, x); });
}

HEDDLE_OPERATORS(row_sparse) {
  table.family("Row-sparse arrays");
  table.add("row_sparse", row_sparse,
            {"Zeros of `shape` (n, d...), plus values[i] at row rows[i]; values of equal rows are added up.",
             {{"rows", DTypes::integers}, {"values", DTypes::floating}, "shape"},
             "that of values"});
  table.add("retain",
            +[](const OperatorValue& x, const NDArray& rows, Where where) {
              const auto* dense = std::get_if<NDArray>(&x);
              return dense ? retain(*dense, rows, where) : retain(std::get<RowSparse>(x), rows, where);
            },
            {"What x has at these rows, and 0 elsewhere.",
             {{"x", DTypes::floating}, {"rows", DTypes::integers}},
             "that of x"});
  table.add("sum_row_sparse", static_cast<RowSparse (*)(const std::vector<RowSparse>&, Where)>(sum),
            {"The sum of row-sparse arrays of one shape and dtype.",
             {{"arrays", DTypes::floating}},
             "that of arrays"});
  table.add("scale", scale, {"x * factor.", {{"x", DTypes::floating}, "factor"}, "that of x"});
  table.add("to_dense", to_dense,
            {"The whole array, with its zeros.", {{"x", DTypes::floating}}, "that of x"});
  table.add("add_rows_", add_rows,
            {"dense += x, at the rows that x has.", {{"dense", DTypes::floating}, {"x", DTypes::floating}}});
}

}  // namespace heddle
