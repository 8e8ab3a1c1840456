#include "families/conv/pool_problem.h"

#include <algorithm>

#include "core/operator.h"

namespace heddle {
namespace {

using std::to_string;

PoolProblem problem_of_images(const std::string& op, int axes, const NDArray& x) {
  static constexpr const char* kImages[] = {"(N, C, L)", "(N, C, H, W)", "(N, C, D, H, W)"};
  operators_detail::check_arrays(op.c_str(), {&x});
  operators_detail::check_floating(op.c_str(), x);
  if (x.ndim() != axes + 2)
    throw InvalidArgument(op + ": x " + x.shape().to_string() + "; wanted " + kImages[axes - 1]);
  PoolProblem problem{};
  problem.axes = axes;
  problem.planes = x.shape()[0] * x.shape()[1];
  problem.in = spatial(x.shape());
  return problem;
}

// The number of windows along an axis of `padded` elements; 0 if not one begins before the `limit`.
std::int64_t window_count(std::int64_t padded, std::int64_t span, std::int64_t stride, bool ceil_mode,
                          std::int64_t limit) {
  const std::int64_t rest = padded - span;  // what one window leaves
  if (rest < 0) return ceil_mode && -rest < stride ? 1 : 0;
  const std::int64_t whole = rest / stride + 1;
  std::int64_t start;
  const bool one_more =
      ceil_mode && rest % stride != 0 && !__builtin_mul_overflow(whole, stride, &start) && start < limit;
  return one_more ? whole + 1 : whole;
}

void place_windows(const std::string& op, PoolProblem& p, std::size_t axis, bool ceil_mode) {
  const std::int64_t in = p.in[axis], kernel = p.kernel[axis], stride = p.stride[axis],
                     padding = p.padding[axis], dilation = p.dilation[axis];
  if (kernel < 1 || stride < 1 || padding < 0 || padding > kernel / 2)
    throw InvalidArgument(op + ": kernel " + to_string(kernel) + ", stride " + to_string(stride) +
                          ", padding " + to_string(padding) +
                          "; wanted at least 1, at least 1, and 0 to half the kernel");
  if (dilation < 1) throw InvalidArgument(op + ": dilation " + to_string(dilation) + "; wanted at least 1");
  std::int64_t padded, span, both;  // 2 * padding does not overflow: padding is at most half the kernel
  if (__builtin_add_overflow(in, 2 * padding, &padded) ||
      __builtin_mul_overflow(kernel - 1, dilation, &span) || __builtin_add_overflow(span, 1, &span) ||
      __builtin_add_overflow(padded, span, &both))
    throw InvalidArgument(op + ": kernel " + to_string(kernel) + ", padding " + to_string(padding) +
                          " and dilation " + to_string(dilation) + " make sizes beyond 64 bits");
  p.out[axis] = in == 0 ? 0 : window_count(padded, span, stride, ceil_mode, in + padding);
  if (p.out[axis] == 0)
    throw InvalidArgument(op + ": a window of " + to_string(span) + " is larger than the padded input " +
                          to_string(padded));
  if (padding > 0 && dilation > in)
    throw InvalidArgument(op + ": padding " + to_string(padding) + " and dilation " + to_string(dilation) +
                          " make windows without an element of the axis of " + to_string(in));
  // Steps that lead to no other window or element: kernels add them to positions, which must not overflow.
  if (p.out[axis] == 1) p.stride[axis] = std::min(stride, padded);
  if (kernel == 1) p.dilation[axis] = 1;
}

}  // namespace

PoolProblem pool_problem(const std::string& op, int axes, const NDArray& x, const PoolOptions& options) {
  PoolProblem problem = problem_of_images(op, axes, x);
  problem.count_include_pad = options.count_include_pad;
  problem.kernel = spatial(op, "kernel", options.kernel, axes, 1);
  problem.stride = options.stride.empty() ? problem.kernel : spatial(op, "stride", options.stride, axes, 1);
  problem.padding = spatial(op, "padding", options.padding, axes, 0);
  problem.dilation = spatial(op, "dilation", options.dilation, axes, 1);
  for (std::size_t axis = 0; axis < kSpatial; ++axis) place_windows(op, problem, axis, options.ceil_mode);
  return problem;
}

PoolProblem adaptive_pool_problem(const std::string& op, int axes, const NDArray& x, const Dims& size) {
  PoolProblem problem = problem_of_images(op, axes, x);
  problem.adaptive = true;
  problem.out = spatial(op, "size", size, axes, 1);
  problem.dilation = {1, 1, 1};
  for (const std::int64_t out : problem.out)
    if (out < 1) throw InvalidArgument(op + ": size is " + size.to_string() + "; want 1 or more");
  if (volume(problem.in) == 0)
    throw InvalidArgument(op + ": x " + x.shape().to_string() + "; wanted no axis of 0 but N and C");
  return problem;
}

}  // namespace heddle
