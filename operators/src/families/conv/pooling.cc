#include <string>
#include <vector>

#include <heddle/elementwise_math.h>
#include <heddle/engine.h>
#include <heddle/pooling.h>
#include <heddle/scatter.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/conv/pooling_kernels.h"

namespace heddle {
namespace {

using operators_detail::kernel_for;
using operators_detail::make_result;
using operators_detail::record_op;

PoolProblem problem_of(const std::string& op, const NDArray& x, const Pool2dOptions& options) {
  operators_detail::check_arrays(op.c_str(), {&x});
  operators_detail::check_floating(op.c_str(), x);
  if (x.ndim() != 4) throw InvalidArgument(op + ": x " + x.shape().to_string() + "; wanted (N, C, H, W)");
  PoolProblem problem{};
  problem.planes = x.shape()[0] * x.shape()[1];
  problem.count_include_pad = options.count_include_pad;
  for (int axis = 0; axis < 2; ++axis) {
    const auto at = static_cast<std::size_t>(axis);
    const std::int64_t in = problem.in[axis] = x.shape()[axis + 2];
    const std::int64_t kernel = problem.kernel[axis] = options.kernel[at];
    const std::int64_t stride = problem.stride[axis] = options.stride[at] == 0 ? kernel : options.stride[at];
    const std::int64_t padding = problem.padding[axis] = options.padding[at];
    if (kernel < 1 || stride < 1 || padding < 0 || padding > kernel / 2) {
      throw InvalidArgument(op + ": kernel " + std::to_string(kernel) + ", stride " + std::to_string(stride) +
                            ", padding " + std::to_string(padding) +
                            "; wanted at least 1, at least 1, and 0 to half the kernel");
    }
    std::int64_t padded;  // 2 * padding does not overflow: padding is at most half the kernel
    if (__builtin_add_overflow(in, 2 * padding, &padded)) {
      throw InvalidArgument(op + ": padding " + std::to_string(padding) + " makes sizes beyond 64 bits");
    }
    if (in == 0 || padded < kernel) {
      throw InvalidArgument(op + ": a window of " + std::to_string(kernel) +
                            " is larger than the padded input " + std::to_string(padded));
    }
    problem.out[axis] = (padded - kernel) / stride + 1;
  }
  return problem;
}

Shape pooled_shape(const NDArray& x, const PoolProblem& problem) {
  return {x.shape()[0], x.shape()[1], problem.out[0], problem.out[1]};
}

NDArray max_pool_backward(const PoolProblem& problem, const NDArray& grad, const NDArray& where,
                          const Shape& shape) {
  const NDArray x_grad = make_result(grad, shape, grad.dtype());
  auto* kernel = kernel_for<MaxPoolBackwardKernel>("max_pool2d_backward", grad);
  array_push("max_pool2d_backward", {grad, where}, {x_grad},
             [=](const KernelContext& context) { kernel(context, problem, grad, where, x_grad); });
  return x_grad;
}

// The index (i64) of each window's maximum in its plane of x, in row-major order. `where` has its position in
// the window.
NDArray indices_in_plane(const PoolProblem& problem, const NDArray& where) {
  const NDArray place = where.astype(DType::i64);
  const auto along = [&](int axis, const NDArray& in_window) {
    const NDArray window = arange(problem.out[axis], DType::i64, where.device()) * problem.stride[axis];
    return in_window + (axis == 0 ? window.view_as({-1, 1}) : window) - problem.padding[axis];
  };
  const std::int64_t width = problem.kernel[1];
  return along(0, floor_divide(place, width)) * problem.in[1] + along(1, place % width);
}

// max_pool2d's gradient by recorded operators.
NDArray max_pool_backward_by_operators(const PoolProblem& problem, const NDArray& grad, const NDArray& where,
                                       const Shape& shape) {
  const EngineScope scope(grad.engine());
  const Shape windows{problem.planes, problem.out[0] * problem.out[1]};
  const NDArray places = indices_in_plane(problem, where).view_as(windows);
  const NDArray nothing = zeros({problem.planes, problem.in[0] * problem.in[1]}, grad.dtype(), grad.device());
  return reshape(scatter_add(nothing, places, reshape(grad, windows), 1), shape);
}

NDArray avg_pool(const PoolProblem& problem, const NDArray& x);

NDArray avg_pool_backward(const PoolProblem& problem, const NDArray& grad, const Shape& shape) {
  const NDArray source = grad.detach().contiguous();
  NDArray x_grad = make_result(grad, shape, grad.dtype());
  auto* kernel = kernel_for<AvgPoolBackwardKernel>("avg_pool2d_backward", grad);
  array_push(
      "avg_pool2d_backward", {source}, {x_grad},
      [=, out = x_grad.detach()](const KernelContext& context) { kernel(context, problem, source, out); });
  if (recording({&grad})) {
    record_op("avg_pool2d_backward", x_grad, {grad}, {},
              [=](const NDArray& g) { return std::vector<NDArray>{avg_pool(problem, g)}; });
  }
  return x_grad;
}

NDArray avg_pool(const PoolProblem& problem, const NDArray& x) {
  const NDArray source = x.detach().contiguous();
  NDArray y = make_result(x, pooled_shape(x, problem), x.dtype());
  auto* kernel = kernel_for<AvgPoolKernel>("avg_pool2d", x);
  array_push("avg_pool2d", {source}, {y},
             [=, out = y.detach()](const KernelContext& context) { kernel(context, problem, source, out); });
  if (recording({&x})) {
    record_op("avg_pool2d", y, {x}, {}, [=, shape = x.shape()](const NDArray& grad_output) {
      return std::vector<NDArray>{avg_pool_backward(problem, grad_output, shape)};
    });
  }
  return y;
}

}  // namespace

NDArray max_pool2d(const NDArray& x, const Pool2dOptions& options, Where at) {
  const CallSite site(at);
  const PoolProblem problem = problem_of("max_pool2d", x, options);
  if (is_half(x.dtype())) return cast(max_pool2d(operators_detail::wide(x), options), x.dtype());
  const NDArray source = x.detach().contiguous();
  NDArray y = make_result(x, pooled_shape(x, problem), x.dtype());
  const bool taped = recording({&x});
  const bool few = problem.kernel[0] <= 256 / problem.kernel[1];  // a u8 can number the positions in a window
  const NDArray where = taped ? make_result(x, y.shape(), few ? DType::u8 : DType::i32) : NDArray();
  auto* kernel = kernel_for<MaxPoolKernel>("max_pool2d", x);
  std::vector<NDArray> writes{y};
  if (taped) writes.push_back(where);
  operators_detail::push_op(
      "max_pool2d", {{source}}, writes,
      [=, out = y.detach()](const KernelContext& context) { kernel(context, problem, source, out, where); });
  if (taped) {
    record_op("max_pool2d", y, {x}, {where}, [=, shape = x.shape()](const NDArray& grad_output) {
      if (operators_detail::differentiating_gradient())
        return std::vector{max_pool_backward_by_operators(problem, grad_output, where, shape)};
      return std::vector{max_pool_backward(problem, grad_output.detach().contiguous(), where, shape)};
    });
  }
  return y;
}

NDArray avg_pool2d(const NDArray& x, const Pool2dOptions& options, Where at) {
  const CallSite site(at);
  const PoolProblem problem = problem_of("avg_pool2d", x, options);
  if (is_half(x.dtype())) return cast(avg_pool2d(operators_detail::wide(x), options), x.dtype());
  return avg_pool(problem, x);
}

HEDDLE_OPERATORS(pooling) {
  table.family("Neural networks");
  const Argument x = {"x", DTypes::floating}, size = {"kernel_size", Pair{2, 2}}, stride = {"stride", kNone};
  const Argument padding = {"padding", Pair{0, 0}};
  const std::string of_window =
      " of each window of x (N, C, H, W). Windows are `stride` apart; None: their size.";
  // None is the size of the windows, {0, 0} in Pool2dOptions. So an explicit stride must not be 0.
  static constexpr auto stride_of = [](const char* op, const std::optional<Pair>& given) {
    for (const std::int64_t step : given.value_or(Pair{1, 1}))
      if (step < 1)
        throw InvalidArgument(std::string(op) + ": stride " + std::to_string(step) + "; wanted at least 1");
    return given.value_or(Pair{0, 0});
  };
  table.add("max_pool2d",
            +[](const NDArray& in, Pair kernel, std::optional<Pair> step, Pair pad, Where where) {
              const CallSite site(where);
              return max_pool2d(
                  in, {.kernel = kernel, .stride = stride_of("max_pool2d", step), .padding = pad}, where);
            },
            {"The largest element" + of_window, {x, size, stride, padding}, "that of x", kDifferentiable});
  table.add(
      "avg_pool2d",
      +[](const NDArray& in, Pair kernel, std::optional<Pair> step, Pair pad, bool count_pad, Where where) {
        const CallSite site(where);
        return avg_pool2d(in, {kernel, stride_of("avg_pool2d", step), pad, count_pad}, where);
      },
      {"The mean" + of_window + " Padding counts as zeros if `count_include_pad`, else not at all.",
       {x, size, stride, padding, {"count_include_pad", true}},
       "that of x",
       kDifferentiable});
}

}  // namespace heddle
