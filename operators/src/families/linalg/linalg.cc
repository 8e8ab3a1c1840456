#include "families/linalg/linalg.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include <heddle/default_engine.h>
#include <heddle/number_text.h>
#include <heddle/rearrange.h>
#include <heddle/shape_ops.h>

namespace heddle::operators_detail {

NDArray matrices(const char* op, const NDArray& x) {
  check_arrays(op, {&x});
  if (x.ndim() < 2) {
    throw InvalidArgument(std::string(op) + ": an array of shape " + x.shape().to_string() +
                          "; wanted matrices, in at least two axes");
  }
  return is_floating(x.dtype()) ? x : cast(x, DType::f64);
}

NDArray square_matrices(const char* op, const NDArray& x) {
  NDArray result = matrices(op, x);
  if (rows_of(x) != columns_of(x)) {
    throw InvalidArgument(std::string(op) + ": shape " + x.shape().to_string() + "; wanted square matrices");
  }
  return result;
}

Shape batch_shape(const NDArray& x, std::initializer_list<std::int64_t> tail) {
  Shape shape(std::span(x.shape().begin(), static_cast<std::size_t>(x.ndim() - 2)));
  for (std::int64_t size : tail) shape.push_back(size);
  return shape;
}

std::int64_t rows_of(const NDArray& x) { return x.shape()[x.ndim() - 2]; }
std::int64_t columns_of(const NDArray& x) { return x.shape()[x.ndim() - 1]; }

NDArray transposed(const NDArray& x) { return swapaxes(x, -1, -2); }

NDArray with_ones(const NDArray& x, int axes) {
  NDArray y = x;
  for (int i = 0; i < axes; ++i) y = expand_dims(y, -1);
  return y;
}

NDArray as_row(const NDArray& x) { return expand_dims(x, -2); }
NDArray as_column(const NDArray& x) { return expand_dims(x, -1); }

std::vector<NDArray> push_linalg(const LinalgOp& op, const std::vector<NDArray>& in,
                                 const std::vector<Shape>& shapes) {
  LinalgCall call{op.in_errors ? op.in_errors : op.op, {}, {}, op.flag, op.number};
  for (const NDArray& x : in) call.in.push_back(x.detach().contiguous());
  for (const Shape& shape : shapes) call.out.push_back(make_result(in[0], shape, in[0].dtype()));
  const std::vector<NDArray> reads = call.in, results = call.out;
  auto* kernel = kernel_for<LinalgKernel>(op.kernel, in[0]);
  push_op(op.op, std::span(reads), std::span(results),
          [kernel, call = std::move(call)](const KernelContext& context) { kernel(context, call); });
  return results;
}

NDArray identity_like(const NDArray& x) {
  const EngineScope scope(x.engine());
  return eye(columns_of(x), x.dtype(), x.device());
}

std::vector<NDArray> thin_svd(const char* op, const NDArray& x) {
  const std::int64_t m = rows_of(x), n = columns_of(x), k = std::min(m, n);
  return push_linalg({.op = op, .kernel = "svd"}, {x},
                     {batch_shape(x, {m, k}), batch_shape(x, {k}), batch_shape(x, {k, n})});
}

namespace {

double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    case DType::f32:
      return std::numeric_limits<float>::epsilon();
    default:
      return std::numeric_limits<double>::epsilon();
  }
}

}  // namespace

double relative_tolerance(const char* op, const std::optional<double>& rtol, const NDArray& x, DType dtype) {
  if (rtol && !(*rtol >= 0))
    throw InvalidArgument(std::string(op) + ": rtol is " + number_text(*rtol) + "; wanted 0 or more");
  return rtol.value_or(static_cast<double>(std::max(rows_of(x), columns_of(x))) * epsilon_of(dtype));
}

}  // namespace heddle::operators_detail
