#include <array>
#include <limits>
#include <optional>
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
#include "families/conv/pool_problem.h"

namespace heddle {
namespace {

using operators_detail::kernel_for;
using operators_detail::make_result;
using operators_detail::record_op;

// The names of a pooling's op and of that of its gradient.
struct PoolNames {
  const char *forward, *backward;
};

// By the number of spatial axes, less one.
constexpr PoolNames kMaxPools[] = {{"max_pool1d", "max_pool1d_backward"},
                                   {"max_pool2d", "max_pool2d_backward"},
                                   {"max_pool3d", "max_pool3d_backward"}};
constexpr const char* kMaxPoolsWithIndices[] = {"max_pool1d_with_indices", "max_pool2d_with_indices",
                                                "max_pool3d_with_indices"};
constexpr PoolNames kAvgPools[] = {{"avg_pool1d", "avg_pool1d_backward"},
                                   {"avg_pool2d", "avg_pool2d_backward"},
                                   {"avg_pool3d", "avg_pool3d_backward"}};
constexpr PoolNames kAdaptiveMaxPools[] = {{"adaptive_max_pool1d", "adaptive_max_pool1d_backward"},
                                           {"adaptive_max_pool2d", "adaptive_max_pool2d_backward"},
                                           {"adaptive_max_pool3d", "adaptive_max_pool3d_backward"}};
constexpr PoolNames kAdaptiveAvgPools[] = {{"adaptive_avg_pool1d", "adaptive_avg_pool1d_backward"},
                                           {"adaptive_avg_pool2d", "adaptive_avg_pool2d_backward"},
                                           {"adaptive_avg_pool3d", "adaptive_avg_pool3d_backward"}};

Shape pooled_shape(const NDArray& x, const PoolProblem& problem) {
  return with_spatial(x.shape()[0], x.shape()[1], problem.out, problem.axes);
}

// The dtype that numbers the elements of a window.
DType place_dtype(const PoolProblem& problem) {
  const std::int64_t most = volume(most_in_window(problem));
  if (most <= 256) return DType::u8;
  return most <= std::numeric_limits<std::int32_t>::max() ? DType::i32 : DType::i64;
}

NDArray max_pool_backward(const PoolNames& names, const PoolProblem& problem, const NDArray& grad,
                          const NDArray& where, const Shape& shape) {
  const NDArray x_grad = make_result(grad, shape, grad.dtype());
  auto* kernel = kernel_for<MaxPoolBackwardKernel>("max_pool_backward", grad);
  array_push(names.backward, {grad, where}, {x_grad}, recordable([=](const KernelContext& context) {
               kernel(context, problem, grad, where, x_grad);
             }));
  return x_grad;
}

// The index (i64) of each window's maximum in its plane of x, in row-major order. `where` has its position in
// the window.
NDArray indices_in_plane(const PoolProblem& problem, const NDArray& where) {
  const Spatial most = most_in_window(problem);
  NDArray place = where.astype(DType::i64), index;
  std::int64_t stride = 1;
  for (std::size_t axis = kSpatial; axis-- > kSpatial - static_cast<std::size_t>(problem.axes);) {
    std::vector<std::int64_t> begins;
    for (std::int64_t i = 0; i < problem.out[axis]; ++i) begins.push_back(pool_span(problem, axis, i).begin);
    Shape along = Dims::filled(static_cast<int>(kSpatial - axis), 1);
    along[0] = problem.out[axis];
    const NDArray begin = array(begins, along).copy_to(where.device());
    const NDArray at = (begin + place % most[axis] * problem.dilation[axis]) * stride;
    index = index.defined() ? index + at : at;
    place = floor_divide(place, most[axis]);
    stride *= problem.in[axis];
  }
  return index;
}

// The gradient by recorded operators.
NDArray max_pool_backward_by_operators(const PoolProblem& problem, const NDArray& grad, const NDArray& where,
                                       const Shape& shape) {
  if (problem.planes == 0) return reshape(grad, shape);
  const EngineScope scope(grad.engine());
  const Shape windows{problem.planes, volume(problem.out)};
  const NDArray places = reshape(indices_in_plane(problem, where), windows);
  const NDArray nothing = zeros({problem.planes, volume(problem.in)}, grad.dtype(), grad.device());
  return reshape(scatter_add(nothing, places, reshape(grad, windows), 1), shape);
}

// `positions`: gets the position of each maximum in its window, unless it is null.
NDArray max_pool_at(const PoolNames& names, const PoolProblem& problem, const NDArray& x,
                    NDArray* positions) {
  const NDArray source = x.detach().contiguous();
  NDArray y = make_result(x, pooled_shape(x, problem), x.dtype());
  const bool taped = recording({&x}), wanted = taped || positions;
  const NDArray where = wanted ? make_result(x, y.shape(), place_dtype(problem)) : NDArray();
  if (positions) *positions = where;
  auto* kernel = kernel_for<MaxPoolKernel>("max_pool", x);
  std::vector<NDArray> writes{y};
  if (wanted) writes.push_back(where);
  operators_detail::push_op(names.forward, {{source}}, writes,
                            recordable([=, out = y.detach()](const KernelContext& context) {
                              kernel(context, problem, source, out, where);
                            }));
  if (taped) {
    record_op(names.forward, y, {x}, {where}, [=, shape = x.shape()](const NDArray& grad_output) {
      if (operators_detail::differentiating_gradient())
        return std::vector{max_pool_backward_by_operators(problem, grad_output, where, shape)};
      return std::vector{max_pool_backward(names, problem, grad_output.detach().contiguous(), where, shape)};
    });
  }
  return y;
}

NDArray max_pool(const PoolNames& names, const PoolProblem& problem, const NDArray& x) {
  return max_pool_at(names, problem, x, nullptr);
}

NDArray avg_pool(const PoolNames& names, const PoolProblem& problem, const NDArray& x);

NDArray avg_pool_backward(const PoolNames& names, const PoolProblem& problem, const NDArray& grad,
                          const Shape& shape) {
  const NDArray source = grad.detach().contiguous();
  NDArray x_grad = make_result(grad, shape, grad.dtype());
  auto* kernel = kernel_for<AvgPoolBackwardKernel>("avg_pool_backward", grad);
  array_push(names.backward, {source}, {x_grad},
             recordable([=, out = x_grad.detach()](const KernelContext& context) {
               kernel(context, problem, source, out);
             }));
  if (recording({&grad})) {
    record_op(names.backward, x_grad, {grad}, {},
              [=](const NDArray& g) { return std::vector<NDArray>{avg_pool(names, problem, g)}; });
  }
  return x_grad;
}

NDArray avg_pool(const PoolNames& names, const PoolProblem& problem, const NDArray& x) {
  const NDArray source = x.detach().contiguous();
  NDArray y = make_result(x, pooled_shape(x, problem), x.dtype());
  auto* kernel = kernel_for<AvgPoolKernel>("avg_pool", x);
  array_push(names.forward, {source}, {y}, recordable([=, out = y.detach()](const KernelContext& context) {
               kernel(context, problem, source, out);
             }));
  if (recording({&x})) {
    record_op(names.forward, y, {x}, {}, [=, shape = x.shape()](const NDArray& grad_output) {
      return std::vector<NDArray>{avg_pool_backward(names, problem, grad_output, shape)};
    });
  }
  return y;
}

using Pool = NDArray(const PoolNames& names, const PoolProblem& problem, const NDArray& x);

NDArray max_pool(int axes, const NDArray& x, const PoolOptions& options) {
  const PoolNames& names = kMaxPools[axes - 1];
  return max_pool(names, pool_problem(names.forward, axes, x, options), x);
}

std::array<NDArray, 2> max_pool_with_indices(int axes, const NDArray& x, const PoolOptions& options) {
  const PoolNames& names = kMaxPools[axes - 1];
  const PoolProblem problem = pool_problem(names.forward, axes, x, options);
  NDArray positions;
  const NDArray y = cast(max_pool_at(names, problem, operators_detail::wide(x), &positions), x.dtype());
  const EngineScope scope(x.engine());
  const NoGrad no_grad;
  return {y, indices_in_plane(problem, positions)};
}

NDArray avg_pool(int axes, const NDArray& x, const PoolOptions& options) {
  const PoolNames& names = kAvgPools[axes - 1];
  for (const std::int64_t one : options.dilation)
    if (one != 1)
      throw InvalidArgument(std::string(names.forward) + ": dilation is " + options.dilation.to_string() +
                            "; want 1, since a mean has no dilation");
  return avg_pool(names, pool_problem(names.forward, axes, x, options), x);
}

NDArray adaptive_pool(Pool& pool, const PoolNames& names, int axes, const NDArray& x, const Dims& size) {
  return pool(names, adaptive_pool_problem(names.forward, axes, x, size), x);
}

}  // namespace

#define HEDDLE_POOLINGS(axes)                                                                         \
  NDArray max_pool##axes##d(const NDArray& x, const PoolOptions& options, Where where) {              \
    const CallSite site(where);                                                                       \
    return max_pool(axes, x, options);                                                                \
  }                                                                                                   \
  std::array<NDArray, 2> max_pool##axes##d_with_indices(const NDArray& x, const PoolOptions& options, \
                                                        Where where) {                                \
    const CallSite site(where);                                                                       \
    return max_pool_with_indices(axes, x, options);                                                   \
  }                                                                                                   \
  NDArray avg_pool##axes##d(const NDArray& x, const PoolOptions& options, Where where) {              \
    const CallSite site(where);                                                                       \
    return avg_pool(axes, x, options);                                                                \
  }                                                                                                   \
  NDArray adaptive_max_pool##axes##d(const NDArray& x, const Dims& size, Where where) {               \
    const CallSite site(where);                                                                       \
    return adaptive_pool(max_pool, kAdaptiveMaxPools[(axes)-1], axes, x, size);                       \
  }                                                                                                   \
  NDArray adaptive_avg_pool##axes##d(const NDArray& x, const Dims& size, Where where) {               \
    const CallSite site(where);                                                                       \
    return adaptive_pool(avg_pool, kAdaptiveAvgPools[(axes)-1], axes, x, size);                       \
  }
HEDDLE_POOLINGS(1)
HEDDLE_POOLINGS(2)
HEDDLE_POOLINGS(3)
#undef HEDDLE_POOLINGS

namespace operators_detail {
namespace {

template <std::size_t n> Dims stride_dims(const std::optional<Sizes<n>>& given) {
  return given ? Dims(*given) : Dims();
}

template <int axes> void add_pools(OperatorTable& table) {
  static constexpr const char* kImages[] = {"(N, C, L)", "(N, C, H, W)", "(N, C, D, H, W)"};
  const std::string of_window = std::string(" of each window of x ") + kImages[axes - 1] +
                                ". Windows are `stride` apart; None: their size. `ceil_mode`: the last may "
                                "end beyond the padding.";
  const Argument x = {"x", DTypes::floating}, size = {"kernel_size", 2}, stride = {"stride", kNone},
                 padding = {"padding", 0}, ceil = {"ceil_mode", false};
  table.add(kMaxPools[axes - 1].forward,
            +[](const NDArray& in, Sizes<axes> kernel, const std::optional<Sizes<axes>>& step,
                Sizes<axes> pad, Sizes<axes> dilation, bool ceil_mode, Where where) {
              const CallSite site(where);
              return max_pool(axes, in,
                              {.kernel = Dims(kernel),
                               .stride = stride_dims(step),
                               .padding = Dims(pad),
                               .dilation = Dims(dilation),
                               .ceil_mode = ceil_mode});
            },
            {"The largest element" + of_window,
             {x, size, stride, padding, {"dilation", 1}, ceil},
             "that of x",
             kDifferentiable});
  table.add(kMaxPoolsWithIndices[axes - 1],
            +[](const NDArray& in, Sizes<axes> kernel, const std::optional<Sizes<axes>>& step,
                Sizes<axes> pad, Sizes<axes> dilation, bool ceil_mode, Where where) {
              const CallSite site(where);
              return max_pool_with_indices(axes, in,
                                           {.kernel = Dims(kernel),
                                            .stride = stride_dims(step),
                                            .padding = Dims(pad),
                                            .dilation = Dims(dilation),
                                            .ceil_mode = ceil_mode});
            },
            {"max_pool, and the indices of the maxima in the flattened spatial axes of x, for max_unpool.",
             {x, size, stride, padding, {"dilation", 1}, ceil},
             "that of x; i64 of the indices",
             kDifferentiable});
  table.add(kAvgPools[axes - 1].forward,
            +[](const NDArray& in, Sizes<axes> kernel, const std::optional<Sizes<axes>>& step,
                Sizes<axes> pad, bool count_pad, bool ceil_mode, Where where) {
              const CallSite site(where);
              return avg_pool(axes, in,
                              {.kernel = Dims(kernel),
                               .stride = stride_dims(step),
                               .padding = Dims(pad),
                               .count_include_pad = count_pad,
                               .ceil_mode = ceil_mode});
            },
            {"The mean" + of_window + " Padding counts as zeros if `count_include_pad`, else not at all.",
             {x, size, stride, padding, {"count_include_pad", true}, ceil},
             "that of x",
             kDifferentiable});
  const std::string of_part =
      std::string(" of each of `output_size` windows along each axis, which cover x ") + kImages[axes - 1] +
      ": window i of L elements begins at floor(i L / size), and ends before "
      "ceil((i + 1) L / size).";
  table.add(kAdaptiveMaxPools[axes - 1].forward,
            +[](const NDArray& in, Sizes<axes> out, Where where) {
              const CallSite site(where);
              return adaptive_pool(max_pool, kAdaptiveMaxPools[axes - 1], axes, in, Dims(out));
            },
            {"The largest element" + of_part, {x, {"output_size"}}, "that of x", kDifferentiable});
  table.add(kAdaptiveAvgPools[axes - 1].forward,
            +[](const NDArray& in, Sizes<axes> out, Where where) {
              const CallSite site(where);
              return adaptive_pool(avg_pool, kAdaptiveAvgPools[axes - 1], axes, in, Dims(out));
            },
            {"The mean" + of_part, {x, {"output_size"}}, "that of x", kDifferentiable});
}

}  // namespace
}  // namespace operators_detail

HEDDLE_OPERATORS(pooling) {
  table.family("Neural networks");
  add_pools<1>(table);
  add_pools<2>(table);
  add_pools<3>(table);
}

}  // namespace heddle
