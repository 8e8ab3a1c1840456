// Registers pooling for GPUs.
#include <cstddef>

#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "families/conv/cuda/pooling.h"
#include "families/conv/cuda/sizes.h"
#include "families/conv/pooling_kernels.h"

namespace heddle::cuda_kernels {
namespace {

Pooling pooling(const PoolProblem& p, const NDArray& from, const NDArray& to) {
  Pooling all{};
  const Spatial most = most_in_window(p);
  copy_sizes(p, all);
  for (std::size_t axis = 0; axis < kSpatial; ++axis) all.most[axis] = most[axis];
  all.planes = p.planes;
  all.adaptive = p.adaptive;
  all.count_include_pad = p.count_include_pad;
  all.from = read<void>(from);
  all.to = written<void>(to);
  all.type = static_cast<unsigned char>(from.dtype());
  return all;
}

// Windows of 2 * 2 elements beside each other: the CPU writes their gradients instead of adding them to 0.
bool is_two_by_two(const PoolProblem& p) {
  return !p.adaptive && p.in[0] == 1 && p.kernel == Spatial{1, 2, 2} && p.stride[1] == 2 &&
         p.stride[2] == 2 && p.padding == Spatial{} && p.dilation == Spatial{1, 1, 1} &&
         2 * p.out[1] <= p.in[1] && 2 * p.out[2] <= p.in[2];
}

bool overlap(const PoolProblem& p) {
  for (std::size_t axis = 0; axis < kSpatial; ++axis) {
    for (std::int64_t i = 0; i + 1 < p.out[axis]; ++i) {
      if (pool_span(p, axis, i + 1).begin < pool_span(p, axis, i).end) return true;
    }
  }
  return false;
}

void max_pool(const KernelContext& context, const PoolProblem& p, const NDArray& x, const NDArray& y,
              const NDArray& where) {
  if (y.size() == 0) return;
  Pooling all = pooling(p, x, y);
  if (where.defined()) {
    all.where = written<void>(where);
    all.where_type = static_cast<unsigned char>(where.dtype());
  }
  check_launch(context, launch_max_pool(context.stream().native(), all));
}

void max_pool_backward(const KernelContext& context, const PoolProblem& p, const NDArray& grad,
                       const NDArray& where, const NDArray& x_grad) {
  if (x_grad.size() == 0) return;
  Pooling all = pooling(p, grad, x_grad);
  all.where = const_cast<void*>(read<void>(where));
  all.where_type = static_cast<unsigned char>(where.dtype());
  all.adds = !is_two_by_two(p);
  check_launch(context, launch_max_pool_backward(context.stream().native(), all));
}

void avg_pool(const KernelContext& context, const PoolProblem& p, const NDArray& x, const NDArray& y) {
  if (y.size() == 0) return;
  check_launch(context, launch_avg_pool(context.stream().native(), pooling(p, x, y)));
}

void avg_pool_backward(const KernelContext& context, const PoolProblem& p, const NDArray& grad,
                       const NDArray& x_grad) {
  if (x_grad.size() == 0) return;
  Pooling all = pooling(p, grad, x_grad);
  all.wide = overlap(p);
  check_launch(context, launch_avg_pool_backward(context.stream().native(), all));
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(pooling) {
  table.add<MaxPoolKernel>("max_pool", DeviceKind::cuda, cuda_kernels::max_pool);
  table.add<MaxPoolBackwardKernel>("max_pool_backward", DeviceKind::cuda, cuda_kernels::max_pool_backward);
  table.add<AvgPoolKernel>("avg_pool", DeviceKind::cuda, cuda_kernels::avg_pool);
  table.add<AvgPoolBackwardKernel>("avg_pool_backward", DeviceKind::cuda, cuda_kernels::avg_pool_backward);
}

}  // namespace heddle
