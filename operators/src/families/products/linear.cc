#include <algorithm>
#include <string>
#include <vector>

#include <heddle/elementwise.h>
#include <heddle/matmul.h>
#include <heddle/multiply_adds.h>
#include <heddle/reduce.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/autocast.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/products/kernels.h"
#include "families/products/relu_mask.h"

namespace heddle {
namespace {

using operators_detail::kernel_for;
using operators_detail::make_result;
using operators_detail::record_op;

void check_linear(const NDArray& x, const NDArray& weight, const NDArray& bias) {
  operators_detail::check_arrays("linear", {&x, &weight});
  if (bias.defined()) operators_detail::check_arrays("linear", {&x, &bias});
  operators_detail::check_floating("linear", x);
  const bool mixed = operators_detail::mixes_dtypes() && is_floating(weight.dtype()) &&
                     (!bias.defined() || is_floating(bias.dtype()));
  if (!mixed && (x.dtype() != weight.dtype() || (bias.defined() && bias.dtype() != x.dtype()))) {
    throw InvalidArgument(std::string("linear: x is ") + name_of(x.dtype()) + " and weight " +
                          name_of(weight.dtype()) + "; wanted one dtype for x, weight and bias");
  }
  if (x.ndim() < 1 || weight.ndim() != 2 || x.shape()[x.ndim() - 1] != weight.shape()[1]) {
    throw InvalidArgument("linear: x " + x.shape().to_string() + " and weight " + weight.shape().to_string() +
                          "; wanted (..., in) and (out, in)");
  }
  if (bias.defined() && bias.shape() != Shape{weight.shape()[0]}) {
    throw InvalidArgument("linear: bias " + bias.shape().to_string() + "; wanted (" +
                          std::to_string(weight.shape()[0]) + ",)");
  }
}

// The number of rows of x (..., in) as a matrix.
std::int64_t row_count(const NDArray& x) {
  std::int64_t rows = 1;
  for (int axis = 0; axis + 1 < x.ndim(); ++axis) rows *= x.shape()[axis];
  return rows;
}

// Pushes the gradient, of `dtype`, of input `index`: (m, n) = a * b, where a and b have two axes and may be transposed.
NDArray product(std::size_t index, DType dtype, const NDArray& a, bool transpose_a, const NDArray& b,
                bool transpose_b, int priority = 0) {
  const std::int64_t m = a.shape()[transpose_a ? 1 : 0], k = a.shape()[transpose_a ? 0 : 1];
  const std::int64_t n = b.shape()[transpose_b ? 0 : 1];
  const NDArray y = operators_detail::is_written(dtype, a.dtype()) ? make_gradient(index, a)
                                                                   : make_result(a, {m, n}, a.dtype());
  MultiplyAdds::add(m * n * k);
  MatmulKernel* kernel = kernel_for<MatmulKernel>("matmul", y);
  MatmulProblem problem{m,
                        n,
                        k,
                        {transpose_a, std::max<std::int64_t>(a.shape()[1], 1)},
                        {transpose_b, std::max<std::int64_t>(b.shape()[1], 1)},
                        {{0, 0}},
                        1};
  const NDArray reads[] = {a, b}, writes[] = {y};
  operators_detail::push_op(
      "linear_backward", reads, writes,
      recordable([=, a = a.detach(), b = b.detach(), y = y.detach()](const KernelContext& context) {
        kernel(context, problem, a, b, y);
      }),
      priority);
  return operators_detail::in_dtype(y, dtype);
}

NDArray column_sums(const NDArray& g, DType dtype) {
  const NDArray sums =
      make_result(g, {g.shape()[1]}, operators_detail::is_written(dtype, g.dtype()) ? dtype : g.dtype());
  ColumnSumsKernel* kernel = kernel_for<ColumnSumsKernel>("column_sums", g);
  const NDArray reads[] = {g}, writes[] = {sums};
  operators_detail::push_op("linear_bias_backward", reads, writes,
                            recordable([=, g = g.detach(), sums = sums.detach()](
                                           const KernelContext& context) { kernel(context, g, sums); }),
                            operators_detail::kWeightsFirst);
  return operators_detail::in_dtype(sums, dtype);
}

struct LinearInputs {
  NDArray x, weight, bias;  // x is (rows, in); all are contiguous and detached
};
struct LinearDtypes {
  DType x, weight, bias;
};

// Computes the gradients by operators, which a tape can record, instead of by kernels; those of halves in f32. `y` is defined if
// the operator ends in a relu; the mask of the relu counts as a constant.
std::vector<NDArray> by_operators(const NDArray& grad_output, const NDArray& of_x, const NDArray& of_weight,
                                  bool has_bias, const NDArray& y, LinearDtypes dtypes) {
  const DType dtype = grad_output.dtype();
  const bool half = is_half(dtype);
  const NDArray x = half ? operators_detail::rounded_to(of_x, dtype) : of_x,
                weight = half ? operators_detail::rounded_to(of_weight, dtype) : of_weight;
  const std::int64_t rows = row_count(x);
  NDArray g = operators_detail::wide(reshape(grad_output, {rows, weight.shape()[0]}));
  if (y.defined()) g = where(y <= 0, 0, g);
  std::vector<NDArray> gradients{
      cast(reshape(matmul(g, weight), x.shape()), dtypes.x),
      cast(matmul(transpose(g), reshape(x, {rows, weight.shape()[1]})), dtypes.weight)};
  if (has_bias) gradients.push_back(cast(sum(g, {0}), dtypes.bias));
  return gradients;
}

// The bias in the dtype of the product, but of halves an f32 one as it is.
NDArray bias_in_product(const NDArray& bias, DType dtype) {
  if (!bias.defined()) return bias;
  const bool wide = is_half(dtype) && bias.dtype() != dtype;
  return operators_detail::in_product(bias, wide ? DType::f32 : dtype).contiguous();
}

NDArray push_linear(const LinearInputs& in, bool relu) {
  const NDArray y = make_result(in.x, {in.x.shape()[0], in.weight.shape()[0]}, in.x.dtype());
  MultiplyAdds::add(in.x.size() * in.weight.shape()[0]);
  LinearKernel* kernel = kernel_for<LinearKernel>("linear", y);
  std::vector<NDArray> reads{in.x, in.weight};
  if (in.bias.defined()) reads.push_back(in.bias);
  const NDArray writes[] = {y};
  operators_detail::push_op("linear", reads, writes,
                            recordable([=, y = y.detach()](const KernelContext& context) {
                              kernel(context, in.x, in.weight, in.bias, y, relu);
                            }));
  return y;
}

}  // namespace

NDArray operators_detail::relu_mask(const char* name, const NDArray& g, const NDArray& y) {
  const NDArray out = make_result(g, g.shape(), g.dtype());
  ReluMaskKernel* kernel = kernel_for<ReluMaskKernel>("relu_mask", g);
  array_push(name, {g, y}, {out},
             recordable([=, g = g.detach(), y = y.detach(),
                         out = out.detach()](const KernelContext& context) { kernel(context, g, y, out); }));
  return out;
}

NDArray linear(const NDArray& x, const NDArray& weight, const NDArray& bias, LinearOptions options,
               Where where) {
  const CallSite site(where);
  check_linear(x, weight, bias);
  const DType dtype = operators_detail::product_dtype({&x, &weight, &bias});
  const LinearDtypes dtypes{x.dtype(), weight.dtype(), bias.defined() ? bias.dtype() : dtype};
  const LinearInputs in{
      operators_detail::in_product(x, dtype).contiguous().view_as({row_count(x), weight.shape()[1]}),
      operators_detail::in_product(weight, dtype).contiguous(), bias_in_product(bias, dtype)};
  const NDArray y = push_linear(in, options.relu);
  Shape shape = x.shape();
  shape[x.ndim() - 1] = weight.shape()[0];
  NDArray result = y.view_as(shape);
  const bool need_x = requires_grad(x), need_weight = requires_grad(weight);
  const bool need_bias = bias.defined() && requires_grad(bias);
  if (!recording({&x, &weight}) && !(need_bias && recording({&bias}))) return result;
  const NDArray kept_x = save_for_backward(x), kept_weight = save_for_backward(weight);
  std::vector<NDArray> inputs{x, weight}, saved{kept_x, kept_weight};
  for (const NDArray& array : {in.x, in.weight}) saved.push_back(save_for_backward(array));
  if (bias.defined()) inputs.push_back(bias);
  if (options.relu) saved.push_back(save_for_backward(y));
  record_op("linear", result, std::move(inputs), std::move(saved),
            [=, y = y.detach(), inner = in, has_bias = bias.defined()](const NDArray& grad_output) {
              if (operators_detail::differentiating_gradient())
                return by_operators(grad_output, kept_x, kept_weight, has_bias, options.relu ? y : NDArray(),
                                    dtypes);
              NDArray g = grad_output.contiguous().view_as(y.shape());
              if (options.relu) g = operators_detail::relu_mask("linear_relu_backward", g, y);
              std::vector<NDArray> grads(has_bias ? 3 : 2);
              if (need_x)
                grads[0] = product(0, dtypes.x, g, false, inner.weight, false).view_as(kept_x.shape());
              if (need_weight)
                grads[1] =
                    product(1, dtypes.weight, g, true, inner.x, false, operators_detail::kWeightsFirst);
              if (need_bias) grads[2] = column_sums(g, dtypes.bias);
              return grads;
            });
  return result;
}

HEDDLE_OPERATORS(linear) {
  table.family("Neural networks");
  table.add("linear",
            +[](const NDArray& x, const NDArray& weight, const NDArray& bias, bool relu, Where where) {
              return linear(x, weight, bias, {.relu = relu}, where);
            },
            {"x (..., in) times the transpose of weight (out, in), plus bias (out): (..., out); then max(0, "
             ".) if `relu`.",
             {{"x", DTypes::floating},
              {"weight", DTypes::floating},
              {"bias", kNone, DTypes::floating},
              {"relu", false}},
             "that of x",
             kDifferentiable});
}

}  // namespace heddle
