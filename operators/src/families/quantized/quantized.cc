#include <string>
#include <vector>

#include <heddle/elementwise.h>
#include <heddle/multiply_adds.h>
#include <heddle/quantized/products.h>
#include <heddle/shape_ops.h>

#include "core/operator.h"
#include "core/operator_table.h"
#include "families/conv/conv_problem.h"
#include "families/conv/padding_parameter.h"
#include "families/quantized/kernels.h"

namespace heddle {
namespace {

using operators_detail::kernel_for;
using operators_detail::make_result;

constexpr ConvForm kQuantizedForms[] = {{"quantized_conv1d", "(N, C, L)", "k"},
                                        {"quantized_conv2d", "(N, C, H, W)", "kh, kw"},
                                        {"quantized_conv3d", "(N, C, D, H, W)", "kd, kh, kw"}};

void check_quantized_array(const std::string& op, const char* name, const NDArray& array, DType dtype,
                           const Shape& shape) {
  if (array.dtype() == dtype && array.shape() == shape) return;
  throw InvalidArgument(op + ": " + name + " is " + name_of(array.dtype()) + " " + array.shape().to_string() +
                        "; want " + name_of(dtype) + " " + shape.to_string());
}

void check_quantized(const char* op, const NDArray& x, const QuantizedWeights& w) {
  operators_detail::check_arrays(op, {&x, &w.weight, &w.weight_scale, &w.input_scale, &w.input_zero_point});
  if (w.bias.defined()) operators_detail::check_arrays(op, {&x, &w.bias});
  operators_detail::check_floating(op, x);
  const NDArray& weight = w.weight;
  if (weight.dtype() != DType::i8)
    throw InvalidArgument(std::string(op) + ": weight is " + name_of(weight.dtype()) + "; want i8");
  if (weight.ndim() < 2)
    throw InvalidArgument(std::string(op) + ": weight is " + weight.shape().to_string() +
                          "; want two axes or more");
  const std::int64_t outputs = weight.shape()[0];
  check_quantized_array(op, "weight_scale", w.weight_scale, DType::f32, {outputs});
  check_quantized_array(op, "input_scale", w.input_scale, DType::f32, {1});
  check_quantized_array(op, "input_zero_point", w.input_zero_point, DType::i32, {1});
  if (w.bias.defined()) check_quantized_array(op, "bias", w.bias, DType::f32, {outputs});
  const std::int64_t products = outputs == 0 ? 0 : weight.size() / outputs;
  if (products > kMostByteProducts)
    throw InvalidArgument(std::string(op) + ": each result is a sum of " + std::to_string(products) +
                          " products; want at most " + std::to_string(kMostByteProducts) +
                          ", whose sum fits into 32 bits");
}

NDArray f32_input(const NDArray& x) { return cast(x.detach(), DType::f32).contiguous(); }

QuantizedWeights plain_weights(const QuantizedWeights& w) {
  const auto plain = [](const NDArray& one) { return one.defined() ? one.detach().contiguous() : one; };
  return {plain(w.weight), plain(w.weight_scale), plain(w.input_scale), plain(w.input_zero_point),
          plain(w.bias)};
}

std::vector<NDArray> quantized_reads(const NDArray& x, const QuantizedWeights& w) {
  std::vector<NDArray> reads{x, w.weight, w.weight_scale, w.input_scale, w.input_zero_point};
  if (w.bias.defined()) reads.push_back(w.bias);
  return reads;
}

NDArray quantized_conv(int axes, const NDArray& given, const QuantizedWeights& weights,
                       const ConvOptions& options) {
  const ConvForm& form = kQuantizedForms[axes - 1];
  check_quantized(form.op, given, weights);
  const ConvProblem problem =
      conv_problem_of_shapes(form, axes, given, weights.weight, weights.bias, options);
  // A padded image is made as a whole.
  constexpr double kMostPadded = 0x1p31;
  double padded = static_cast<double>(problem.channels);
  for (std::size_t axis = 0; axis < kSpatial; ++axis)
    padded *= static_cast<double>(problem.out[axis] - 1) * static_cast<double>(problem.stride[axis]) +
              static_cast<double>(problem.kernel[axis] - 1) * static_cast<double>(problem.dilation[axis]) + 1;
  if (padded > kMostPadded)
    throw InvalidArgument(std::string(form.op) + ": an image has more than 2^31 elements with its padding");
  const NDArray x = f32_input(given);
  const QuantizedWeights w = plain_weights(weights);
  const NDArray y =
      make_result(x, with_spatial(problem.n, problem.outputs, problem.out, problem.axes), DType::f32);
  MultiplyAdds::add(problem.multiply_adds());
  auto* kernel = kernel_for<QuantizedConvKernel>("quantized_conv", y);
  const NDArray writes[] = {y};
  operators_detail::push_op(form.op, quantized_reads(x, w), writes,
                            [=](const KernelContext& context) { kernel(context, problem, x, w, y); });
  return y;
}

}  // namespace

NDArray quantized_linear(const NDArray& x, const QuantizedWeights& weights, LinearOptions options,
                         Where where) {
  const CallSite site(where);
  check_quantized("quantized_linear", x, weights);
  const NDArray& weight = weights.weight;
  if (x.ndim() < 1 || weight.ndim() != 2 || x.shape()[x.ndim() - 1] != weight.shape()[1])
    throw InvalidArgument("quantized_linear: x " + x.shape().to_string() + " and weight " +
                          weight.shape().to_string() + "; wanted (..., in) and (out, in)");
  Shape shape = x.shape();
  std::int64_t rows = 1;
  for (int axis = 0; axis + 1 < x.ndim(); ++axis) rows *= shape[axis];
  shape[x.ndim() - 1] = weight.shape()[0];
  const NDArray in = f32_input(x).view_as({rows, weight.shape()[1]});
  const QuantizedWeights w = plain_weights(weights);
  const NDArray result = make_result(in, shape, DType::f32),
                y = result.detach().view_as({rows, weight.shape()[0]});
  MultiplyAdds::add(rows * weight.size());
  auto* kernel = kernel_for<QuantizedLinearKernel>("quantized_linear", y);
  const NDArray writes[] = {y};
  operators_detail::push_op(
      "quantized_linear", quantized_reads(in, w), writes,
      [=, relu = options.relu](const KernelContext& context) { kernel(context, in, w, relu, y); });
  return result;
}

NDArray quantized_conv1d(const NDArray& x, const QuantizedWeights& weights, const ConvOptions& options,
                         Where where) {
  const CallSite site(where);
  return quantized_conv(1, x, weights, options);
}
NDArray quantized_conv2d(const NDArray& x, const QuantizedWeights& weights, const ConvOptions& options,
                         Where where) {
  const CallSite site(where);
  return quantized_conv(2, x, weights, options);
}
NDArray quantized_conv3d(const NDArray& x, const QuantizedWeights& weights, const ConvOptions& options,
                         Where where) {
  const CallSite site(where);
  return quantized_conv(3, x, weights, options);
}

namespace operators_detail {

template <int axes> void add_quantized_conv(OperatorTable& table) {
  static constexpr const ConvForm& form = kQuantizedForms[axes - 1];
  table.add(
      form.op,
      +[](const NDArray& x, const NDArray& weight, const NDArray& weight_scale, const NDArray& input_scale,
          const NDArray& input_zero_point, const NDArray& bias, Sizes<axes> stride, PaddingOf<axes> padding,
          Sizes<axes> dilation, std::int64_t groups, bool relu, Where where) {
        const CallSite site(where);
        return quantized_conv(axes, x, {weight, weight_scale, input_scale, input_zero_point, bias},
                              {Dims(stride), padding.padding, Dims(dilation), groups, relu});
      },
      {std::string("As ") + (form.op + 10) + ", of x " + form.x + " as u8 with weight (O, C / groups, " +
           form.kernel + ") of i8; see quantized_linear.",
       {{"x", DTypes::floating},
        {"weight", DTypes::i8},
        {"weight_scale", DTypes::f32},
        {"input_scale", DTypes::f32},
        {"input_zero_point", DTypes::i32},
        {"bias", kNone, DTypes::f32},
        {"stride", 1},
        {"padding", 0, kPaddings},
        {"dilation", 1},
        {"groups", 1},
        {"relu", false}},
       "f32"});
}

}  // namespace operators_detail

HEDDLE_OPERATORS(quantized) {
  table.family("Neural networks");
  table.add(
      "quantized_linear",
      +[](const NDArray& x, const NDArray& weight, const NDArray& weight_scale, const NDArray& input_scale,
          const NDArray& input_zero_point, const NDArray& bias, bool relu, Where where) {
        return quantized_linear(x, {weight, weight_scale, input_scale, input_zero_point, bias},
                                {.relu = relu}, where);
      },
      {"linear of x as u8, round(x / input_scale) + input_zero_point, with weight (out, in) of i8, which "
       "counts weight_scale (out).",
       {{"x", DTypes::floating},
        {"weight", DTypes::i8},
        {"weight_scale", DTypes::f32},
        {"input_scale", DTypes::f32},
        {"input_zero_point", DTypes::i32},
        {"bias", kNone, DTypes::f32},
        {"relu", false}},
       "f32"});
  add_quantized_conv<1>(table);
  add_quantized_conv<2>(table);
  add_quantized_conv<3>(table);
}

}  // namespace heddle
