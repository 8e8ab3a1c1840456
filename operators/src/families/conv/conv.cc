#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <heddle/conv.h>
#include <heddle/elementwise.h>
#include <heddle/reduce.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/conv/kernels.h"

namespace heddle {
namespace {

using operators_detail::kernel_for;
using operators_detail::make_result;
using operators_detail::record_op;

[[noreturn]] void refuse(const std::string& what) { throw InvalidArgument("conv2d: " + what); }

void check_shapes(const NDArray& x, const NDArray& weight, const NDArray& bias, std::int64_t groups) {
  const std::string shapes = "x " + x.shape().to_string() + ", weight " + weight.shape().to_string();
  if (x.ndim() != 4 || weight.ndim() != 4)
    refuse(shapes + "; wanted (N, C, H, W) and (O, C / groups, kh, kw)");
  const std::int64_t channels = x.shape()[1], outputs = weight.shape()[0];
  if (groups < 1 || channels % groups != 0 || outputs % groups != 0) {
    refuse(std::to_string(groups) + " groups do not divide " + std::to_string(channels) + " channels and " +
           std::to_string(outputs) + " outputs");
  }
  if (weight.shape()[1] != channels / groups) {
    refuse(shapes + ", groups " + std::to_string(groups) + "; wanted a weight of " +
           std::to_string(channels / groups) + " channels");
  }
  if (element_count(weight.shape()) == 0 || x.shape()[2] == 0 || x.shape()[3] == 0) {
    refuse(shapes + "; wanted no axis of 0 but N");
  }
  if (bias.defined() && bias.shape() != Shape{outputs}) {
    refuse("bias " + bias.shape().to_string() + "; wanted (" + std::to_string(outputs) + ",)");
  }
}

void check_conv_arrays(const NDArray& x, const NDArray& weight, const NDArray& bias) {
  operators_detail::check_arrays("conv2d", {&x, &weight});
  if (bias.defined()) operators_detail::check_arrays("conv2d", {&x, &bias});
  operators_detail::check_floating("conv2d", x);
  if (x.dtype() == weight.dtype() && (!bias.defined() || bias.dtype() == x.dtype())) return;
  refuse(std::string("x is ") + name_of(x.dtype()) + " and weight " + name_of(weight.dtype()) +
         "; wanted one dtype for x, weight and bias");
}

ConvProblem problem_of(const NDArray& x, const NDArray& weight, const NDArray& bias,
                       const Conv2dOptions& options) {
  ConvProblem problem{};
  problem.n = x.shape()[0];
  problem.channels = x.shape()[1];
  problem.outputs = weight.shape()[0];
  problem.groups = options.groups;
  problem.relu = options.relu;
  problem.bias = bias.defined();
  for (int axis = 0; axis < 2; ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    const std::int64_t in = problem.in[axis] = x.shape()[axis + 2];
    const std::int64_t kernel = problem.kernel[axis] = weight.shape()[axis + 2];
    const std::int64_t stride = problem.stride[axis] = options.stride[at];
    const std::int64_t padding = problem.padding[axis] = options.padding[at];
    const std::int64_t dilation = problem.dilation[axis] = options.dilation[at];
    if (stride < 1 || padding < 0 || dilation < 1) {
      refuse("stride " + std::to_string(stride) + ", padding " + std::to_string(padding) + ", dilation " +
             std::to_string(dilation) + "; wanted at least 1, 0 and 1");
    }
    std::int64_t padded, span;
    if (__builtin_mul_overflow(padding, 2, &padded) || __builtin_add_overflow(padded, in, &padded) ||
        __builtin_mul_overflow(dilation, kernel - 1, &span) || __builtin_add_overflow(span, 1, &span)) {
      refuse("padding " + std::to_string(padding) + " and dilation " + std::to_string(dilation) +
             " make sizes beyond 64 bits");
    }
    if (padded < span) {
      refuse("the kernel spans " + std::to_string(span) + " and the padded input only " +
             std::to_string(padded) + (axis == 0 ? " rows" : " columns"));
    }
    problem.out[axis] = (padded - span) / stride + 1;
  }
  return problem;
}

// The arrays of a convolution, contiguous and detached.
struct ConvInputs {
  NDArray x, weight, bias;
};

NDArray forward(const ConvProblem& problem, const ConvInputs& in) {
  const NDArray y =
      make_result(in.x, {problem.n, problem.outputs, problem.out[0], problem.out[1]}, in.x.dtype());
  auto* kernel = kernel_for<ConvForwardKernel>("conv2d", y);
  std::vector<NDArray> reads{in.x, in.weight};
  if (in.bias.defined()) reads.push_back(in.bias);
  const NDArray writes[] = {y};
  operators_detail::push_op("conv2d", reads, writes, [=](const KernelContext& context) {
    kernel(context, problem, in.x, in.weight, in.bias, y);
  });
  return y;
}

// The gradient of x. y is defined if the forward pass ended in a relu.
NDArray backward_data(const ConvProblem& problem, const NDArray& grad, const NDArray& y,
                      const NDArray& weight) {
  const NDArray x_grad =
      make_result(grad, {problem.n, problem.channels, problem.in[0], problem.in[1]}, grad.dtype());
  auto* kernel = kernel_for<ConvBackwardDataKernel>("conv2d_backward_data", grad);
  std::vector<NDArray> reads{grad, weight};
  if (y.defined()) reads.push_back(y);
  const NDArray writes[] = {x_grad};
  operators_detail::push_op("conv2d_backward_data", reads, writes, [=](const KernelContext& context) {
    kernel(context, problem, grad, y, weight, x_grad);
  });
  return x_grad;
}

// Sets the gradients of weight and, if there is one, of bias.
void push_backward_weights(const ConvProblem& problem, const NDArray& grad, const NDArray& y,
                           const NDArray& x, const NDArray& weight_grad, const NDArray& bias_grad) {
  auto* kernel = kernel_for<ConvBackwardWeightsKernel>("conv2d_backward_weights", grad);
  std::vector<NDArray> reads{grad, x}, writes{weight_grad};
  if (y.defined()) reads.push_back(y);
  if (problem.bias) writes.push_back(bias_grad);
  operators_detail::push_op(
      "conv2d_backward_weights", reads, writes,
      [=](const KernelContext& context) { kernel(context, problem, grad, y, x, weight_grad, bias_grad); },
      operators_detail::kWeightsFirst);
}

std::vector<NDArray> backward_weights(const ConvProblem& problem, const NDArray& grad, const NDArray& y,
                                      const ConvInputs& in) {
  const NDArray weight_grad = make_gradient(1, in.x);
  const NDArray bias_grad = problem.bias ? make_gradient(2, in.x) : NDArray();
  push_backward_weights(problem, grad, y, in.x, weight_grad, bias_grad);
  return {weight_grad, bias_grad};
}

NDArray weights_gradient(const ConvProblem& problem, const NDArray& grad, const NDArray& x) {
  const Shape shape{problem.outputs, problem.channels / problem.groups, problem.kernel[0], problem.kernel[1]};
  const NDArray weight_grad = make_result(x, shape, x.dtype());
  push_backward_weights(problem, grad, {}, x, weight_grad, {});
  return weight_grad;
}

// --- gradients as operators, for gradients of higher order
//
// <conv2d(x, w), g> is linear in each of x, w and g: one of its three gradients is conv2d, the functions
// below are the others.

NDArray gradient_of_x(const ConvProblem& problem, const NDArray& g, const NDArray& weight);
NDArray gradient_of_weight(const ConvProblem& problem, const NDArray& g, const NDArray& x);

NDArray without_bias(const ConvProblem& problem, const NDArray& x, const NDArray& weight) {
  const auto pair = [](const std::int64_t(&of)[2]) { return std::array<std::int64_t, 2>{of[0], of[1]}; };
  return conv2d(x, weight, {},
                {pair(problem.stride), pair(problem.padding), pair(problem.dilation), problem.groups, false});
}

NDArray plain(const NDArray& x) { return x.detach().contiguous(); }

NDArray gradient_of_x(const ConvProblem& problem, const NDArray& g, const NDArray& weight) {
  NDArray x_grad = backward_data(problem, plain(g), {}, plain(weight));
  if (!recording({&g, &weight})) return x_grad;
  const NDArray of_g = save_for_backward(g), of_weight = save_for_backward(weight);
  const bool need_g = requires_grad(g), need_weight = requires_grad(weight);
  record_op("conv2d_backward_data", x_grad, {g, weight}, {of_g, of_weight}, [=](const NDArray& h) {
    return std::vector{need_g ? without_bias(problem, h, of_weight) : NDArray(),
                       need_weight ? gradient_of_weight(problem, of_g, h) : NDArray()};
  });
  return x_grad;
}

NDArray gradient_of_weight(const ConvProblem& problem, const NDArray& g, const NDArray& x) {
  NDArray w_grad = weights_gradient(problem, plain(g), plain(x));
  if (!recording({&g, &x})) return w_grad;
  const NDArray of_g = save_for_backward(g), of_x = save_for_backward(x);
  record_op("conv2d_backward_weights", w_grad, {g, x}, {of_g, of_x}, [=](const NDArray& h) {
    return std::vector{without_bias(problem, of_x, h), gradient_of_x(problem, of_g, h)};
  });
  return w_grad;
}

// The gradients of x, weight and, if there is one, of bias, on the tape.
std::vector<NDArray> by_operators(ConvProblem problem, const NDArray& grad, const NDArray& y,
                                  const NDArray& x, const NDArray& weight) {
  const NDArray g = problem.relu ? where(less_equal(y, 0), 0, grad) : grad;
  const bool bias = problem.bias;
  problem.relu = problem.bias = false;
  std::vector<NDArray> grads{gradient_of_x(problem, g, weight), gradient_of_weight(problem, g, x)};
  if (bias) grads.push_back(sum(g, {0, 2, 3}));
  return grads;
}

}  // namespace

NDArray conv2d(const NDArray& x, const NDArray& weight, const NDArray& bias, const Conv2dOptions& options,
               Where where) {
  const CallSite site(where);
  check_conv_arrays(x, weight, bias);
  check_shapes(x, weight, bias, options.groups);
  if (is_half(x.dtype())) {
    return cast(conv2d(operators_detail::wide(x), operators_detail::wide(weight),
                       operators_detail::wide(bias), options),
                x.dtype());
  }
  const ConvProblem problem = problem_of(x, weight, bias, options);
  const ConvInputs in{x.detach().contiguous(), weight.detach().contiguous(),
                      bias.defined() ? bias.detach().contiguous() : NDArray()};
  NDArray y = forward(problem, in);
  const bool need_x = requires_grad(x), need_bias = bias.defined() && requires_grad(bias);
  const bool need_weights = requires_grad(weight) || need_bias;
  if (!recording({&x, &weight}) && !(need_bias && recording({&bias}))) return y;
  const NDArray of_x = save_for_backward(x), of_weight = save_for_backward(weight);
  std::vector<NDArray> inputs{x, weight}, saved{of_x, of_weight};
  for (const NDArray& array : {in.x, in.weight}) saved.push_back(save_for_backward(array));
  if (bias.defined()) inputs.push_back(bias);
  const NDArray relu_of = options.relu ? y.detach() : NDArray();
  if (options.relu) saved.push_back(save_for_backward(y));
  record_op("conv2d", y, std::move(inputs), std::move(saved), [=](const NDArray& grad_output) {
    if (operators_detail::differentiating_gradient())
      return by_operators(problem, grad_output, relu_of, of_x, of_weight);
    const NDArray grad = grad_output.detach().contiguous();
    std::vector<NDArray> grads(problem.bias ? 3 : 2);
    if (need_x) grads[0] = backward_data(problem, grad, relu_of, in.weight);
    if (need_weights) {
      const std::vector<NDArray> of_weights = backward_weights(problem, grad, relu_of, in);
      grads[1] = of_weights[0];
      if (problem.bias) grads[2] = of_weights[1];
    }
    return grads;
  });
  return y;
}

NDArray conv1d(const NDArray& x, const NDArray& weight, const NDArray& bias, const Conv1dOptions& options,
               Where where) {
  const CallSite site(where);
  operators_detail::check_arrays("conv1d", {&x, &weight});
  if (x.ndim() != 3 || weight.ndim() != 3)
    throw InvalidArgument("conv1d: x " + x.shape().to_string() + ", weight " + weight.shape().to_string() +
                          "; wanted (N, C, L) and (O, C / groups, k)");
  const auto with_row = [](const NDArray& array) {
    const Shape& shape = array.shape();
    return reshape(array, {shape[0], shape[1], 1, shape[2]});
  };
  const NDArray y = ndarray_detail::in_name_of("conv1d", [&] {
    return conv2d(with_row(x), with_row(weight), bias,
                  {.stride = {1, options.stride},
                   .padding = {0, options.padding},
                   .dilation = {1, options.dilation},
                   .groups = options.groups,
                   .relu = options.relu});
  });
  return reshape(y, {y.shape()[0], y.shape()[1], y.shape()[3]});
}

namespace {

// The convolution whose gradient of x is the transposed one: its result has the shape of x here.
ConvProblem transposed_problem(const NDArray& x, const NDArray& weight,
                               const ConvTranspose2dOptions& options) {
  const auto wrong = [&](const std::string& what) { throw InvalidArgument("conv_transpose2d: " + what); };
  const std::string shapes = "x " + x.shape().to_string() + ", weight " + weight.shape().to_string();
  if (x.ndim() != 4 || weight.ndim() != 4 || weight.shape()[0] != x.shape()[1])
    wrong(shapes + "; wanted (N, C, H, W) and (C, O / groups, kh, kw)");
  if (element_count(weight.shape()) == 0 || x.shape()[2] == 0 || x.shape()[3] == 0)
    wrong(shapes + "; wanted no axis of 0 but N");
  const std::int64_t groups = options.groups, channels = x.shape()[1];
  if (groups < 1 || channels % groups != 0)
    wrong(std::to_string(groups) + " groups do not divide " + std::to_string(channels) + " channels");
  ConvProblem problem{};
  problem.n = x.shape()[0];
  problem.channels = weight.shape()[1] * groups;
  problem.outputs = channels;
  problem.groups = groups;
  for (int axis = 0; axis < 2; ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    const std::int64_t stride = options.stride[at], padding = options.padding[at],
                       dilation = options.dilation[at], more = options.output_padding[at],
                       kernel = weight.shape()[axis + 2], size = x.shape()[axis + 2];
    if (stride < 1 || padding < 0 || dilation < 1 || more < 0 || more >= std::max(stride, dilation))
      wrong("stride " + std::to_string(stride) + ", padding " + std::to_string(padding) + ", dilation " +
            std::to_string(dilation) + ", output_padding " + std::to_string(more) +
            "; wanted at least 1, 0, 1 and 0, with output_padding below stride or dilation");
    std::int64_t whole, span, result;
    if (__builtin_mul_overflow(size - 1, stride, &whole) ||
        __builtin_mul_overflow(kernel - 1, dilation, &span) || __builtin_add_overflow(whole, span, &whole) ||
        __builtin_add_overflow(whole, more + 1, &whole) || padding > whole / 2)
      wrong("the sizes of the result are beyond 64 bits, or the padding is larger than the result");
    result = whole - 2 * padding;
    if (result < 1) wrong("padding " + std::to_string(padding) + " leaves nothing of the result");
    problem.in[axis] = result;
    problem.out[axis] = size;
    problem.kernel[axis] = kernel;
    problem.stride[axis] = stride;
    problem.padding[axis] = padding;
    problem.dilation[axis] = dilation;
    if ((result + 2 * padding - span - 1) / stride + 1 != size)
      wrong("output_padding " + std::to_string(more) + " is not below stride " + std::to_string(stride));
  }
  return problem;
}

}  // namespace

NDArray conv_transpose2d(const NDArray& x, const NDArray& weight, const NDArray& bias,
                         const ConvTranspose2dOptions& options, Where where) {
  const CallSite site(where);
  operators_detail::check_arrays("conv_transpose2d", {&x, &weight});
  operators_detail::check_floating("conv_transpose2d", x);
  if (bias.defined()) operators_detail::check_arrays("conv_transpose2d", {&x, &bias});
  if (x.dtype() != weight.dtype() || (bias.defined() && bias.dtype() != x.dtype()))
    throw InvalidArgument(std::string("conv_transpose2d: x is ") + name_of(x.dtype()) + " and weight " +
                          name_of(weight.dtype()) + "; wanted one dtype for x, weight and bias");
  const ConvProblem problem = transposed_problem(x, weight, options);
  if (bias.defined() && bias.shape() != Shape{problem.channels})
    throw InvalidArgument("conv_transpose2d: bias " + bias.shape().to_string() + "; wanted (" +
                          std::to_string(problem.channels) + ",)");
  if (is_half(x.dtype()))
    return cast(conv_transpose2d(operators_detail::wide(x), operators_detail::wide(weight),
                                 operators_detail::wide(bias), options),
                x.dtype());
  const NDArray y = gradient_of_x(problem, x, weight);
  return bias.defined() ? y + reshape(bias, {1, problem.channels, 1, 1}) : y;
}

HEDDLE_OPERATORS(conv) {
  table.family("Neural networks");
  table.add("conv2d",
            +[](const NDArray& x, const NDArray& weight, const NDArray& bias, Pair stride, Pair padding,
                Pair dilation, std::int64_t groups, bool relu, Where where) {
              return conv2d(x, weight, bias, {stride, padding, dilation, groups, relu}, where);
            },
            {"Two-dimensional convolution of x (N, C, H, W) with weight (O, C / groups, kh, kw), plus bias "
             "(O); then max(0, .) if `relu`.",
             {{"x", DTypes::floating},
              {"weight", DTypes::floating},
              {"bias", kNone, DTypes::floating},
              {"stride", Pair{1, 1}},
              {"padding", Pair{0, 0}},
              {"dilation", Pair{1, 1}},
              {"groups", 1},
              {"relu", false}},
             "that of x",
             kDifferentiable});
  table.add(
      "conv1d",
      +[](const NDArray& x, const NDArray& weight, const NDArray& bias, std::int64_t stride,
          std::int64_t padding, std::int64_t dilation, std::int64_t groups, bool relu, Where where) {
        return conv1d(x, weight, bias, {stride, padding, dilation, groups, relu}, where);
      },
      {"Convolution of x (N, C, L) with weight (O, C / groups, k), plus bias (O); then max(0, .) if `relu`.",
       {{"x", DTypes::floating},
        {"weight", DTypes::floating},
        {"bias", kNone, DTypes::floating},
        {"stride", 1},
        {"padding", 0},
        {"dilation", 1},
        {"groups", 1},
        {"relu", false}},
       "that of x",
       kDifferentiable});
  table.add(
      "conv_transpose2d",
      +[](const NDArray& x, const NDArray& weight, const NDArray& bias, Pair stride, Pair padding,
          Pair output_padding, Pair dilation, std::int64_t groups, Where where) {
        return conv_transpose2d(x, weight, bias, {stride, padding, output_padding, dilation, groups}, where);
      },
      {"The transpose of conv2d, of x (N, C, H, W) with weight (C, O / groups, kh, kw), plus bias (O): size "
       "(H - 1) stride - 2 "
       "padding + dilation (kh - 1) + output_padding + 1.",
       {{"x", DTypes::floating},
        {"weight", DTypes::floating},
        {"bias", kNone, DTypes::floating},
        {"stride", Pair{1, 1}},
        {"padding", Pair{0, 0}},
        {"output_padding", Pair{0, 0}},
        {"dilation", Pair{1, 1}},
        {"groups", 1}},
       "that of x",
       kDifferentiable});
}

}  // namespace heddle
