// Registers products of 8-bit integers for GPUs.
#include <cstdint>

#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "cuda/scratch.h"
#include "families/conv/cuda/sizes.h"
#include "families/quantized/cuda/kernels.h"
#include "families/quantized/kernels.h"

namespace heddle::cuda_kernels {
namespace {

ByteWeights weights_of(const QuantizedWeights& given, bool relu) {
  ByteWeights all{};
  all.outputs = given.weight.shape()[0];
  all.products = given.weight.size() / all.outputs;
  if (all.products > 0) all.weight = reinterpret_cast<const signed char*>(read<std::int8_t>(given.weight));
  all.weight_scale = read<float>(given.weight_scale);
  all.input_scale = read<float>(given.input_scale);
  all.zero_point = read<std::int32_t>(given.input_zero_point);
  all.bias = given.bias.defined() ? read<float>(given.bias) : nullptr;
  all.relu = relu;
  return all;
}

void linear(const KernelContext& context, const NDArray& x, const QuantizedWeights& weights, bool relu,
            const NDArray& y) {
  if (y.size() == 0) return;
  const ByteLinear p{weights_of(weights, relu), x.shape()[0], static_cast<const float*>(read_address(x)),
                     written<float>(y)};
  const Scratch space(context, byte_linear_bytes(p));
  check_launch(context, launch_byte_linear(context.stream().native(), p, space.as()));
}

void conv(const KernelContext& context, const ConvProblem& problem, const NDArray& x,
          const QuantizedWeights& weights, const NDArray& y) {
  if (y.size() == 0) return;
  ByteConv p{};
  p.weights = weights_of(weights, problem.relu);
  p.n = problem.n;
  p.groups = problem.groups;
  p.channels = problem.channels / problem.groups;
  copy_sizes(problem, p);
  p.x = static_cast<const float*>(read_address(x));
  p.y = written<float>(y);
  const Scratch space(context, byte_conv_bytes(p));
  check_launch(context, launch_byte_conv(context.stream().native(), p, space.as()));
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(quantized) {
  table.add<QuantizedLinearKernel>("quantized_linear", DeviceKind::cuda, cuda_kernels::linear);
  table.add<QuantizedConvKernel>("quantized_conv", DeviceKind::cuda, cuda_kernels::conv);
}

}  // namespace heddle
