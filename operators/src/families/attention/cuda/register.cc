// Registers attention and rotary embedding for GPUs.
#include <cmath>
#include <cstddef>

#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "cuda/scratch.h"
#include "families/attention/cuda/kernels.h"
#include "families/attention/kernels.h"

namespace heddle::cuda_kernels {
namespace {

Heads heads_of(const NDArray& array) {
  return {read<void>(array), array.strides()[0], array.strides()[1], array.strides()[2]};
}

Attention problem_of(const AttentionProblem& p, DType dtype) {
  Attention all{};
  all.batch = p.batch, all.heads = p.heads, all.kv_heads = p.kv_heads;
  all.queries = p.queries, all.keys = p.keys;
  all.features = p.features, all.value_features = p.value_features;
  all.causal = p.causal;
  all.scale = p.scale;
  all.drops = p.dropout > 0;
  all.seed = p.seed, all.start = p.start;
  all.drop_below = static_cast<unsigned long long>(std::llround(p.dropout * 0x1p32));
  all.kept = p.dropout < 1 ? 1 / (1 - p.dropout) : 0;
  all.drawn_blocks_of_row = p.drawn_blocks_of_row();
  all.type = static_cast<unsigned char>(dtype);
  return all;
}

Attention attention_of(const AttentionProblem& p, const AttentionInputs& in) {
  Attention all = problem_of(p, in.query.dtype());
  all.query = heads_of(in.query);
  all.key = heads_of(in.key);
  all.value = heads_of(in.value);
  if (!in.mask.defined()) return all;
  all.mask = read<void>(in.mask);
  all.mask_shows = in.mask.dtype() == DType::boolean;
  for (int axis = 0; axis < 4; ++axis) {
    all.mask_shape[axis] = in.mask.shape()[axis];
    all.mask_steps[axis] = in.mask.shape()[axis] == 1 ? 0 : in.mask.strides()[axis];
  }
  return all;
}

void attention_kernel(const KernelContext& context, const AttentionProblem& problem,
                      const AttentionInputs& in, const NDArray& y, const NDArray& softmax) {
  if (softmax.size() == 0) return;
  Attention all = attention_of(problem, in);
  all.y = written<void>(y);
  all.softmax = written<void>(softmax);
  check_launch(context, launch_attention(context.stream().native(), all));
}

void attention_backward_kernel(const KernelContext& context, const AttentionProblem& problem,
                               const AttentionInputs& in, const AttentionResult& result,
                               const AttentionGradients& gradients) {
  Attention all = attention_of(problem, in);
  all.g = heads_of(result.g);
  all.y = const_cast<void*>(read<void>(result.y));
  all.softmax = const_cast<void*>(read<void>(result.softmax));
  const std::size_t rows = static_cast<std::size_t>(problem.batch * problem.heads * problem.queries);
  const Scratch products(context, "products of attention", rows * sizeof(double));
  all.products = products.data();
  const auto wanted = [](const NDArray& array) {
    return array.defined() && array.size() > 0 ? written<void>(array) : nullptr;
  };
  all.query_grad = wanted(gradients.query);
  all.key_grad = wanted(gradients.key);
  all.value_grad = wanted(gradients.value);
  all.mask_grad = wanted(gradients.mask);
  check_launch(context, launch_attention_backward(context.stream().native(), all));
}

void attention_dropout_kernel(const KernelContext& context, const AttentionProblem& problem,
                              const NDArray& factors) {
  if (factors.size() == 0) return;
  const Attention all = problem_of(problem, factors.dtype());
  check_launch(context, launch_attention_dropout(context.stream().native(), all, written<void>(factors)));
}

void rotary_kernel(const KernelContext& context, const RotaryProblem& problem, const NDArray& x,
                   const NDArray& positions, const NDArray& y) {
  if (y.size() == 0) return;
  Rotary all{};
  all.dims = x.ndim() - 1;
  for (int axis = 0; axis < all.dims; ++axis) {
    all.sizes[axis] = x.shape()[axis];
    all.x_steps[axis] = x.strides()[axis];
    all.position_steps[axis] = positions.shape()[axis] == 1 ? 0 : positions.strides()[axis];
  }
  all.features = x.shape()[all.dims];
  all.count = positions.size();
  all.base = problem.base;
  all.interleaved = problem.interleaved;
  all.backwards = problem.backwards;
  all.x = read<void>(x);
  all.positions = read<void>(positions);
  all.y = written<void>(y);
  all.type = static_cast<unsigned char>(y.dtype());
  const std::size_t numbers = static_cast<std::size_t>(all.count * all.features);
  const Scratch table(context, "rotations", numbers * size_of(y.dtype()));
  all.table = table.data();
  check_launch(context, launch_rotary(context.stream().native(), all));
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(attention) {
  using namespace cuda_kernels;
  table.add<AttentionKernel>("attention", DeviceKind::cuda, attention_kernel);
  table.add<AttentionBackwardKernel>("attention_backward", DeviceKind::cuda, attention_backward_kernel);
  table.add<AttentionDropoutKernel>("attention_dropout", DeviceKind::cuda, attention_dropout_kernel);
  table.add<RotaryKernel>("rotary", DeviceKind::cuda, rotary_kernel);
}

}  // namespace heddle
