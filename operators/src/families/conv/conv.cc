#include <array>
#include <string>
#include <utility>
#include <vector>

#include <heddle/conv.h>
#include <heddle/elementwise.h>
#include <heddle/multiply_adds.h>
#include <heddle/reduce.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/autocast.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/conv/conv_problem.h"
#include "families/conv/kernels.h"
#include "families/conv/padding_parameter.h"

namespace heddle {
namespace {

using operators_detail::in_dtype;
using operators_detail::is_written;
using operators_detail::kernel_for;
using operators_detail::make_result;
using operators_detail::record_op;
using operators_detail::rounded_to;
using operators_detail::wide;

// <conv(x, w), g> is linear in each of x, w and g: its gradients are three maps, one of which is the convolution. These are the names
// of their ops.
struct ConvNames {
  const char *forward, *backward_data, *backward_weights;
};

// By the number of spatial axes, less one.
constexpr ConvForm kConvForms[] = {{"conv1d", "(N, C, L)", "k"},
                                   {"conv2d", "(N, C, H, W)", "kh, kw"},
                                   {"conv3d", "(N, C, D, H, W)", "kd, kh, kw"}};
constexpr ConvNames kConvNames[] = {{"conv1d", "conv1d_backward_data", "conv1d_backward_weights"},
                                    {"conv2d", "conv2d_backward_data", "conv2d_backward_weights"},
                                    {"conv3d", "conv3d_backward_data", "conv3d_backward_weights"}};
// The transposed convolution is the gradient of x of another one, which is the gradient of its own x.
constexpr ConvForm kTransposedForms[] = {{"conv_transpose1d", "(N, C, L)", "k"},
                                         {"conv_transpose2d", "(N, C, H, W)", "kh, kw"},
                                         {"conv_transpose3d", "(N, C, D, H, W)", "kd, kh, kw"}};
constexpr ConvNames kTransposedNames[] = {
    {"conv_transpose1d_backward_data", "conv_transpose1d", "conv_transpose1d_backward_weights"},
    {"conv_transpose2d_backward_data", "conv_transpose2d", "conv_transpose2d_backward_weights"},
    {"conv_transpose3d_backward_data", "conv_transpose3d", "conv_transpose3d_backward_weights"}};

// The arrays of a convolution, contiguous and detached.
struct ConvInputs {
  NDArray x, weight, bias;
};

NDArray conv_input(const NDArray& x) { return x.defined() ? x.detach().contiguous() : x; }
NDArray conv_input(const NDArray& x, DType dtype) {
  return operators_detail::in_product(x, dtype).contiguous();
}
// The bias in the dtype of the convolution, but of halves an f32 one as it is.
NDArray conv_bias(const NDArray& bias, DType dtype) {
  if (!bias.defined()) return bias;
  const bool f32 = is_half(dtype) && bias.dtype() != dtype;
  return conv_input(bias, f32 ? DType::f32 : dtype);
}

NDArray push_forward(const ConvNames& names, const ConvProblem& problem, const ConvInputs& in) {
  const NDArray y =
      make_result(in.x, with_spatial(problem.n, problem.outputs, problem.out, problem.axes), in.x.dtype());
  MultiplyAdds::add(problem.multiply_adds());
  auto* kernel = kernel_for<ConvForwardKernel>("conv", y);
  std::vector<NDArray> reads{in.x, in.weight};
  if (in.bias.defined()) reads.push_back(in.bias);
  const NDArray writes[] = {y};
  operators_detail::push_op(names.forward, reads, writes, recordable([=](const KernelContext& context) {
                              kernel(context, problem, in.x, in.weight, in.bias, y);
                            }));
  return y;
}

// The gradient of x. y is defined if the forward pass ended in a relu.
NDArray push_backward_data(const ConvNames& names, const ConvProblem& problem, const NDArray& grad,
                           const NDArray& y, const NDArray& weight) {
  const NDArray x_grad =
      make_result(grad, with_spatial(problem.n, problem.channels, problem.in, problem.axes), grad.dtype());
  MultiplyAdds::add(problem.multiply_adds());
  auto* kernel = kernel_for<ConvBackwardDataKernel>("conv_backward_data", grad);
  std::vector<NDArray> reads{grad, weight};
  if (y.defined()) reads.push_back(y);
  const NDArray writes[] = {x_grad};
  operators_detail::push_op(names.backward_data, reads, writes, recordable([=](const KernelContext& context) {
                              kernel(context, problem, grad, y, weight, x_grad);
                            }));
  return x_grad;
}

// Sets the gradients of weight and, if there is one, of bias.
void push_backward_weights(const ConvNames& names, const ConvProblem& problem, const NDArray& grad,
                           const NDArray& y, const NDArray& x, const NDArray& weight_grad,
                           const NDArray& bias_grad) {
  MultiplyAdds::add(problem.multiply_adds());
  auto* kernel = kernel_for<ConvBackwardWeightsKernel>("conv_backward_weights", grad);
  std::vector<NDArray> reads{grad, x}, writes{weight_grad};
  if (y.defined()) reads.push_back(y);
  if (problem.bias) writes.push_back(bias_grad);
  operators_detail::push_op(names.backward_weights, reads, writes,
                            recordable([=](const KernelContext& context) {
                              kernel(context, problem, grad, y, x, weight_grad, bias_grad);
                            }),
                            operators_detail::kWeightsFirst);
}

// --- the three maps as operators on the tape, for gradients of every order

NDArray convolve(const ConvNames& names, const ConvProblem& problem, const NDArray& x, const NDArray& weight,
                 const NDArray& bias, DType dtype);
NDArray gradient_of_weight(const ConvNames& names, const ConvProblem& problem, const NDArray& g,
                           const NDArray& x);

// As make_gradient(), or new memory of `computed` if the kernel does not write the dtype of the input.
NDArray gradient_memory(std::size_t index, const NDArray& like, const Shape& shape, DType dtype,
                        DType computed) {
  return is_written(dtype, computed) ? make_gradient(index, like) : make_result(like, shape, computed);
}

// The dtypes of a convolution's inputs, and the shape of its weights.
struct ConvTypes {
  DType x, weight, bias;
  Shape weights;
};

// The gradient of weight, and of bias if the problem has one, from that of the result.
std::array<NDArray, 2> weight_gradients(const ConvNames& names, const ConvProblem& problem,
                                        const NDArray& grad, const NDArray& y, const NDArray& x,
                                        const ConvTypes& types) {
  const DType computed = x.dtype();
  const NDArray of_weight = gradient_memory(1, x, types.weights, types.weight, computed);
  const NDArray of_bias =
      problem.bias ? gradient_memory(2, x, {problem.outputs}, types.bias, computed) : NDArray();
  push_backward_weights(names, problem, grad, y, x, of_weight, of_bias);
  return {in_dtype(of_weight, types.weight), in_dtype(of_bias, types.bias)};
}

// `dtype`: that of the result, in which it is computed.
NDArray gradient_of_x(const ConvNames& names, const ConvProblem& problem, const NDArray& g,
                      const NDArray& weight, DType dtype) {
  const NDArray in_g = conv_input(g, dtype), in_weight = conv_input(weight, dtype);
  NDArray x_grad = push_backward_data(names, problem, in_g, {}, in_weight);
  if (!recording({&g, &weight})) return x_grad;
  const NDArray of_g = save_for_backward(g), of_weight = save_for_backward(weight);
  const bool need_g = requires_grad(g), need_weight = requires_grad(weight);
  const ConvTypes types{g.dtype(), weight.dtype(), dtype, weight.shape()};
  record_op(names.backward_data, x_grad, {g, weight}, {of_g, of_weight}, [=](const NDArray& h) {
    std::vector<NDArray> grads(2);
    if (!is_half(dtype)) {
      if (need_g) grads[0] = convolve(names, problem, h, of_weight, {}, dtype);
      if (need_weight) grads[1] = gradient_of_weight(names, problem, of_g, h);
    } else if (operators_detail::differentiating_gradient()) {
      const NDArray wide_h = wide(h), wide_g = rounded_to(of_g, dtype);
      if (need_g)
        grads[0] =
            cast(convolve(names, problem, wide_h, rounded_to(of_weight, dtype), {}, DType::f32), types.x);
      if (need_weight) grads[1] = cast(gradient_of_weight(names, problem, wide_g, wide_h), types.weight);
    } else {
      const NDArray in_h = conv_input(h);
      if (need_g) grads[0] = in_dtype(push_forward(names, problem, {in_h, in_weight, {}}), types.x);
      if (need_weight) grads[1] = weight_gradients(names, problem, in_g, {}, in_h, types)[0];
    }
    return grads;
  });
  return x_grad;
}

// Of f32 or f64.
NDArray gradient_of_weight(const ConvNames& names, const ConvProblem& problem, const NDArray& g,
                           const NDArray& x) {
  NDArray w_grad = make_result(
      x, with_spatial(problem.outputs, problem.channels / problem.groups, problem.kernel, problem.axes),
      x.dtype());
  push_backward_weights(names, problem, conv_input(g), {}, conv_input(x), w_grad.detach(), {});
  if (!recording({&g, &x})) return w_grad;
  const NDArray of_g = save_for_backward(g), of_x = save_for_backward(x);
  const bool need_g = requires_grad(g), need_x = requires_grad(x);
  record_op(names.backward_weights, w_grad, {g, x}, {of_g, of_x}, [=](const NDArray& h) {
    return std::vector{need_g ? convolve(names, problem, of_x, h, {}, of_x.dtype()) : NDArray(),
                       need_x ? gradient_of_x(names, problem, of_g, h, of_g.dtype()) : NDArray()};
  });
  return w_grad;
}

struct ConvNeeds {
  bool x, weight, bias;
};

// The gradients that are needed of x, weight and, if there is one, of bias, on the tape; those of halves are computed in f32.
std::vector<NDArray> conv_gradients_by_operators(const ConvNames& names, ConvProblem problem,
                                                 const NDArray& grad, const NDArray& y, const NDArray& of_x,
                                                 const NDArray& of_weight, const ConvTypes& types,
                                                 ConvNeeds needed) {
  const DType dtype = grad.dtype();
  const NDArray x = is_half(dtype) ? rounded_to(of_x, dtype) : of_x,
                weight = is_half(dtype) ? rounded_to(of_weight, dtype) : of_weight;
  const NDArray g = problem.relu ? where(less_equal(y, 0), 0, wide(grad)) : wide(grad);
  const bool bias = problem.bias;
  problem.relu = problem.bias = false;
  std::vector<NDArray> grads(bias ? 3 : 2);
  if (needed.x) grads[0] = cast(gradient_of_x(names, problem, g, weight, g.dtype()), types.x);
  if (needed.weight) grads[1] = cast(gradient_of_weight(names, problem, g, x), types.weight);
  if (needed.bias) {
    Dims axes{0};
    for (int axis = 0; axis < problem.axes; ++axis) axes.push_back(axis + 2);
    grads[2] = cast(sum(g, axes), types.bias);
  }
  return grads;
}

std::vector<NDArray> conv_gradients(const ConvNames& names, const ConvProblem& problem, const NDArray& grad,
                                    const NDArray& y, const ConvInputs& in, const ConvTypes& types,
                                    ConvNeeds needed) {
  std::vector<NDArray> grads(problem.bias ? 3 : 2);
  if (needed.x) grads[0] = in_dtype(push_backward_data(names, problem, grad, y, in.weight), types.x);
  if (needed.weight || needed.bias) {  // one kernel computes both
    const auto [of_weight, of_bias] = weight_gradients(names, problem, grad, y, in.x, types);
    grads[1] = of_weight;
    if (problem.bias) grads[2] = of_bias;
  }
  return grads;
}

// The arrays are checked; `dtype` is that of the result.
NDArray convolve(const ConvNames& names, const ConvProblem& given, const NDArray& x, const NDArray& weight,
                 const NDArray& bias, DType dtype) {
  ConvProblem problem = given;
  problem.bias = bias.defined();
  const ConvInputs in{conv_input(x, dtype), conv_input(weight, dtype), conv_bias(bias, dtype)};
  NDArray y = push_forward(names, problem, in);
  const bool need_bias = bias.defined() && requires_grad(bias);
  const ConvNeeds needed{requires_grad(x), requires_grad(weight), need_bias};
  if (!recording({&x, &weight}) && !(need_bias && recording({&bias}))) return y;
  const ConvTypes types{x.dtype(), weight.dtype(), bias.defined() ? bias.dtype() : dtype, weight.shape()};
  const NDArray of_x = save_for_backward(x), of_weight = save_for_backward(weight);
  std::vector<NDArray> inputs{x, weight}, saved{of_x, of_weight};
  for (const NDArray& array : {in.x, in.weight}) saved.push_back(save_for_backward(array));
  if (bias.defined()) inputs.push_back(bias);
  const NDArray relu_of = problem.relu ? y.detach() : NDArray();
  if (problem.relu) saved.push_back(save_for_backward(y));
  record_op(names.forward, y, std::move(inputs), std::move(saved), [=](const NDArray& grad_output) {
    if (operators_detail::differentiating_gradient())
      return conv_gradients_by_operators(names, problem, grad_output, relu_of, of_x, of_weight, types,
                                         needed);
    return conv_gradients(names, problem, conv_input(grad_output), relu_of, in, types, needed);
  });
  return y;
}

NDArray conv(int axes, const NDArray& x, const NDArray& weight, const NDArray& bias,
             const ConvOptions& options) {
  const ConvProblem problem = conv_problem(kConvForms[axes - 1], axes, x, weight, bias, options);
  return convolve(kConvNames[axes - 1], problem, x, weight, bias,
                  operators_detail::product_dtype({&x, &weight, &bias}));
}

NDArray conv_transpose(int axes, const NDArray& x, const NDArray& weight, const NDArray& bias,
                       const ConvTransposeOptions& options) {
  const ConvProblem problem = transposed_problem(kTransposedForms[axes - 1], axes, x, weight, bias, options);
  const DType dtype = operators_detail::product_dtype({&x, &weight, &bias});
  const NDArray y = gradient_of_x(kTransposedNames[axes - 1], problem, x, weight, dtype);
  if (!bias.defined()) return y;
  Shape of_channels = Dims::filled(axes + 1, 1);
  of_channels[0] = problem.channels;
  return cast(wide(y) + reshape(wide(bias), of_channels), dtype);
}

}  // namespace

NDArray conv1d(const NDArray& x, const NDArray& weight, const NDArray& bias, const ConvOptions& options,
               Where where) {
  const CallSite site(where);
  return conv(1, x, weight, bias, options);
}
NDArray conv2d(const NDArray& x, const NDArray& weight, const NDArray& bias, const ConvOptions& options,
               Where where) {
  const CallSite site(where);
  return conv(2, x, weight, bias, options);
}
NDArray conv3d(const NDArray& x, const NDArray& weight, const NDArray& bias, const ConvOptions& options,
               Where where) {
  const CallSite site(where);
  return conv(3, x, weight, bias, options);
}

NDArray conv_transpose1d(const NDArray& x, const NDArray& weight, const NDArray& bias,
                         const ConvTransposeOptions& options, Where where) {
  const CallSite site(where);
  return conv_transpose(1, x, weight, bias, options);
}
NDArray conv_transpose2d(const NDArray& x, const NDArray& weight, const NDArray& bias,
                         const ConvTransposeOptions& options, Where where) {
  const CallSite site(where);
  return conv_transpose(2, x, weight, bias, options);
}
NDArray conv_transpose3d(const NDArray& x, const NDArray& weight, const NDArray& bias,
                         const ConvTransposeOptions& options, Where where) {
  const CallSite site(where);
  return conv_transpose(3, x, weight, bias, options);
}

namespace operators_detail {
namespace {

template <int axes> void add_conv(OperatorTable& table) {
  static constexpr const ConvForm& form = kConvForms[axes - 1];
  table.add(
      form.op,
      +[](const NDArray& x, const NDArray& weight, const NDArray& bias, Sizes<axes> stride,
          PaddingOf<axes> padding, Sizes<axes> dilation, std::int64_t groups, bool relu, Where where) {
        const CallSite site(where);
        return conv(axes, x, weight, bias, {Dims(stride), padding.padding, Dims(dilation), groups, relu});
      },
      {std::string("Convolution of x ") + form.x + " with weight (O, C / groups, " + form.kernel +
           "), plus bias (O); then max(0, .) if `relu`. `padding`: zeros on each side, or 'same' to keep "
           "the size, or 'valid' for none.",
       {{"x", DTypes::floating},
        {"weight", DTypes::floating},
        {"bias", kNone, DTypes::floating},
        {"stride", 1},
        {"padding", 0, kPaddings},
        {"dilation", 1},
        {"groups", 1},
        {"relu", false}},
       "that of x",
       kDifferentiable});
}

template <int axes> void add_conv_transpose(OperatorTable& table) {
  static constexpr const ConvForm& form = kTransposedForms[axes - 1];
  table.add(
      form.op,
      +[](const NDArray& x, const NDArray& weight, const NDArray& bias, Sizes<axes> stride,
          Sizes<axes> padding, Sizes<axes> output_padding, Sizes<axes> dilation, std::int64_t groups,
          Where where) {
        const CallSite site(where);
        return conv_transpose(axes, x, weight, bias,
                              {Dims(stride), Dims(padding), Dims(output_padding), Dims(dilation), groups});
      },
      {std::string("The transpose of ") + kConvForms[axes - 1].op + ", of x " + form.x +
           " with weight (C, O / groups, " + form.kernel +
           "), plus bias (O). An axis of L elements gets (L - 1) stride - 2 padding + dilation (k - 1) + "
           "output_padding + 1.",
       {{"x", DTypes::floating},
        {"weight", DTypes::floating},
        {"bias", kNone, DTypes::floating},
        {"stride", 1},
        {"padding", 0},
        {"output_padding", 0},
        {"dilation", 1},
        {"groups", 1}},
       "that of x",
       kDifferentiable});
}

}  // namespace
}  // namespace operators_detail

HEDDLE_OPERATORS(conv) {
  table.family("Neural networks");
  add_conv<1>(table);
  add_conv<2>(table);
  add_conv<3>(table);
  add_conv_transpose<1>(table);
  add_conv_transpose<2>(table);
  add_conv_transpose<3>(table);
}

}  // namespace heddle
