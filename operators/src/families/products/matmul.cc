#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <heddle/matmul.h>
#include <heddle/multiply_adds.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/autocast.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/products/kernels.h"

namespace heddle {
namespace {

using operators_detail::kernel_for;
using operators_detail::make_result;
using operators_detail::record_op;

// An array of matrices in its last two axes, in a layout that BLAS can read, perhaps as transposes.
struct Stack {
  NDArray array;
  std::int64_t rows, columns;
  std::int64_t row_stride, column_stride;
  MatmulProblem::Operand operand;

  Stack transpose() const {
    return {array, columns, rows, column_stride, row_stride, {!operand.transposed, operand.stride}};
  }
  Shape batch() const {
    return Shape(std::span(array.shape().begin(), static_cast<std::size_t>(array.ndim() - 2)));
  }
};

bool readable(std::int64_t row_stride, std::int64_t column_stride, std::int64_t rows, std::int64_t columns) {
  return (columns <= 1 || column_stride == 1) &&
         (rows <= 1 || row_stride >= std::max<std::int64_t>(columns, 1));
}

std::int64_t leading(std::int64_t stride, std::int64_t rows, std::int64_t columns) {
  return rows <= 1 ? std::max<std::int64_t>(columns, 1) : stride;
}

Stack stack_of(const NDArray& source) {
  NDArray array = source;
  for (bool copied : {false, true}) {
    const int last = array.ndim() - 1;
    const std::int64_t rows = array.shape()[last - 1], columns = array.shape()[last];
    const std::int64_t down = array.strides()[last - 1], right = array.strides()[last];
    if (copied || readable(down, right, rows, columns)) {
      return {array, rows, columns, down, right, {false, leading(down, rows, columns)}};
    }
    if (readable(right, down, columns, rows)) {
      return {array, rows, columns, down, right, {true, leading(right, columns, rows)}};
    }
    array = array.contiguous();
  }
  throw Error("matmul: a contiguous array is always readable");
}

// The offset of each batch of `full` in an array. `shape` are the array's batch axes, which broadcast to
// `full`.
std::vector<std::int64_t> batch_offsets(const Shape& full, const Shape& shape, const Strides& strides) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(element_count(full)), 0);
  std::int64_t inner = 1;
  for (int axis = full.size() - 1; axis >= 0; --axis) {
    const int own = axis - (full.size() - shape.size());
    const std::int64_t stride = own < 0 || shape[own] == 1 ? 0 : strides[own];
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      offsets[i] += static_cast<std::int64_t>(i) / inner % full[axis] * stride;
    }
    inner *= full[axis];
  }
  return offsets;
}

Shape with_matrix(Shape batch, std::int64_t rows, std::int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

// Pushes y (result..., m, n) = the products of a's and b's matrices; y is contiguous. Products of one batch
// of `result` are summed.
void multiply(const char* name, const Stack& a, const Stack& b, const Shape& result, const NDArray& y) {
  const Shape full = broadcast_shapes(broadcast_shapes(a.batch(), b.batch()), result);
  const auto in_a = batch_offsets(full, a.batch(), a.array.strides());
  const auto in_b = batch_offsets(full, b.batch(), b.array.strides());
  const auto in_result = batch_offsets(full, result, contiguous_strides(result));
  const std::size_t results = static_cast<std::size_t>(element_count(result));
  MatmulProblem problem{a.rows, b.columns, a.columns, a.operand, b.operand, {}, 1};
  if (in_a.empty() && results > 0) {
    y.fill(0);  // each result is a sum of no products
    return;
  }
  MultiplyAdds::add(a.rows * b.columns * a.columns * static_cast<std::int64_t>(in_a.size()));
  if (results > 0) problem.terms = static_cast<std::int64_t>(in_a.size() / results);
  problem.steps.resize(in_a.size());
  std::vector<std::size_t> filled(results, 0);
  for (std::size_t i = 0; i < in_a.size(); ++i) {
    const auto at = static_cast<std::size_t>(in_result[i]);
    problem.steps[at * static_cast<std::size_t>(problem.terms) + filled[at]++] = {in_a[i], in_b[i]};
  }
  MatmulKernel* kernel = kernel_for<MatmulKernel>("matmul", y);
  array_push(name, {a.array, b.array}, {y},
             recordable([=, a_data = a.array.detach(), b_data = b.array.detach(), y_data = y.detach(),
                         problem = std::move(problem)](const KernelContext& context) {
               kernel(context, problem, a_data, b_data, y_data);
             }));
}

struct Like {
  Shape shape;
  DType dtype;
};

// The gradient of input `index`: a times b, converted to the input's shape and dtype.
NDArray gradient(std::size_t index, const Like& input, const Stack& a, const Stack& b, const Shape& result) {
  const DType dtype = a.array.dtype();
  const NDArray y = operators_detail::is_written(input.dtype, dtype)
                        ? make_gradient(index, a.array)
                        : make_result(a.array, input.shape, dtype);
  multiply("matmul_backward", a, b, result, y);
  return operators_detail::in_dtype(y, input.dtype);
}

// A 1-d array as a matrix of one row or of one column; other arrays as they are.
NDArray as_matrix(const NDArray& array, bool row) {
  if (array.ndim() != 1) return array;
  const std::int64_t n = array.shape()[0], stride = array.strides()[0];
  return row ? array.view({1, n}, {std::max<std::int64_t>(n, 1), stride}, array.offset())
             : array.view({n, 1}, {stride, 1}, array.offset());
}

// Computes the gradients by operators, which a tape can record, instead of by kernels; those of a product of halves in f32.
std::vector<NDArray> by_operators(const NDArray& grad_output, const NDArray& of_a, const NDArray& of_b,
                                  const Shape& product) {
  const DType dtype = grad_output.dtype();
  const bool half = is_half(dtype);
  const NDArray a = half ? operators_detail::rounded_to(of_a, dtype) : of_a,
                b = half ? operators_detail::rounded_to(of_b, dtype) : of_b;
  const auto transposed = [](const NDArray& x) {
    Dims axes;
    for (int axis = 0; axis < x.ndim(); ++axis) axes.push_back(axis);
    std::swap(axes[x.ndim() - 2], axes[x.ndim() - 1]);
    return transpose(x, axes);
  };
  const NDArray g = operators_detail::wide(reshape(grad_output, product));
  const NDArray left = a.ndim() == 1 ? expand_dims(a, 0) : a, right = b.ndim() == 1 ? expand_dims(b, 1) : b;
  const auto like = [](const NDArray& gradient, const NDArray& matrix, const NDArray& input) {
    return cast(reshape(operators_detail::sum_to_shape(gradient, matrix.shape()), input.shape()),
                input.dtype());
  };
  return {like(matmul(g, transposed(right)), left, of_a), like(matmul(transposed(left), g), right, of_b)};
}

void check_matmul(const NDArray& a, const NDArray& b) {
  operators_detail::check_arrays("matmul", {&a, &b});
  if (a.ndim() == 0 || b.ndim() == 0) {
    throw InvalidArgument("matmul: a scalar has no axis to multiply along: " + a.shape().to_string() +
                          " and " + b.shape().to_string());
  }
  const std::int64_t k_a = a.shape()[a.ndim() - 1], k_b = b.shape()[b.ndim() == 1 ? 0 : b.ndim() - 2];
  if (k_a != k_b) {
    throw InvalidArgument("matmul: inner dimensions differ: " + a.shape().to_string() + " and " +
                          b.shape().to_string());
  }
}

Shape result_shape(const NDArray& a, const NDArray& b, const Shape& batch) {
  Shape shape = batch;
  if (a.ndim() > 1) shape.push_back(a.shape()[a.ndim() - 2]);
  if (b.ndim() > 1) shape.push_back(b.shape()[b.ndim() - 1]);
  return shape;
}

}  // namespace

NDArray matmul(const NDArray& a, const NDArray& b, Where where) {
  const CallSite site(where);
  check_matmul(a, b);
  const DType dtype = operators_detail::product_dtype({&a, &b});
  const Stack left = stack_of(as_matrix(operators_detail::in_product(a, dtype), true));
  const Stack right = stack_of(as_matrix(operators_detail::in_product(b, dtype), false));
  const Shape batch = operators_detail::broadcast_for("matmul", left.batch(), right.batch());
  const NDArray products =
      make_result(left.array, with_matrix(batch, left.rows, right.columns), left.array.dtype());
  multiply("matmul", left, right, batch, products);
  NDArray y = products.view_as(result_shape(a, b, batch));
  if (recording({&a, &b})) {
    const Shape product = with_matrix(batch, left.rows, right.columns);
    const Like of_a{a.shape(), a.dtype()}, of_b{b.shape(), b.dtype()};
    const NDArray kept_a = save_for_backward(a), kept_b = save_for_backward(b);
    const NDArray saved_left = save_for_backward(left.array), saved_right = save_for_backward(right.array);
    record_op("matmul", y, {a, b}, {kept_a, kept_b, saved_left, saved_right},
              [=, need_a = requires_grad(a), need_b = requires_grad(b)](const NDArray& grad_output) {
                if (operators_detail::differentiating_gradient())
                  return by_operators(grad_output, kept_a, kept_b, product);
                const Stack g = stack_of(grad_output.contiguous().view_as(product));
                std::vector<NDArray> grads(2);
                if (need_a) grads[0] = gradient(0, of_a, g, right.transpose(), left.batch());
                if (need_b) grads[1] = gradient(1, of_b, left.transpose(), g, right.batch());
                return grads;
              });
  }
  return y;
}

HEDDLE_OPERATORS(matmul) {
  table.family("Products");
  table.add("matmul", matmul,
            {"The matrix product, as NumPy's: leading axes are batches and broadcast; arrays of one axis are "
             "a row and a column.",
             {"a", "b"},
             "common",
             kDifferentiable});
}

}  // namespace heddle
