// Registers convolutions for GPUs. A library of convolutions has its place in run(), before Heddle's own kernel.
#include <cstddef>

#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "cuda/scratch.h"
#include "families/conv/cuda/conv.h"
#include "families/conv/cuda/sizes.h"
#include "families/conv/kernels.h"

namespace heddle::cuda_kernels {
namespace {

unsigned char number_of(DType dtype) { return static_cast<unsigned char>(dtype); }

Convolution convolution(const ConvProblem& p, const NDArray& to) {
  Convolution c{};
  c.n = p.n;
  c.groups = p.groups;
  c.channels = p.channels / p.groups;
  c.outputs = p.outputs / p.groups;
  copy_sizes(p, c);
  c.in_volume = volume(p.in);
  c.out_volume = volume(p.out);
  c.taps = volume(p.kernel);
  c.to = written<void>(to);
  c.to_type = number_of(to.dtype());
  return c;
}

void run(const KernelContext& context, ConvTask task, const Convolution& c) {
  const Scratch parts(context, "parts of a convolution", static_cast<std::size_t>(conv_bytes(task, c)));
  check_launch(context, launch_conv(context.stream().native(), task, c, parts.data()));
}

void forward(const KernelContext& context, const ConvProblem& p, const NDArray& x, const NDArray& weight,
             const NDArray& bias, const NDArray& y) {
  if (y.size() == 0) return;
  Convolution c = convolution(p, y);
  c.x = read<void>(x);
  c.weight = read<void>(weight);
  c.type = number_of(x.dtype());
  c.relu = p.relu;
  if (p.bias) {
    c.bias = read<void>(bias);
    c.bias_type = number_of(bias.dtype());
  }
  run(context, ConvTask::forward, c);
}

void backward_data(const KernelContext& context, const ConvProblem& p, const NDArray& grad, const NDArray& y,
                   const NDArray& weight, const NDArray& x_grad) {
  if (x_grad.size() == 0) return;
  Convolution c = convolution(p, x_grad);
  c.g = read<void>(grad);
  c.y = p.relu ? read<void>(y) : nullptr;
  c.weight = read<void>(weight);
  c.type = number_of(grad.dtype());
  run(context, ConvTask::data, c);
}

void backward_weights(const KernelContext& context, const ConvProblem& p, const NDArray& grad,
                      const NDArray& y, const NDArray& x, const NDArray& weight_grad,
                      const NDArray& bias_grad) {
  if (weight_grad.size() == 0) return;
  Convolution c = convolution(p, weight_grad);
  c.g = read<void>(grad);
  c.y = p.relu ? read<void>(y) : nullptr;
  c.x = read<void>(x);
  c.type = number_of(grad.dtype());
  if (p.bias) {
    c.bias_to = written<void>(bias_grad);
    c.bias_to_type = number_of(bias_grad.dtype());
  }
  run(context, ConvTask::weights, c);
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(conv) {
  table.add<ConvForwardKernel>("conv", DeviceKind::cuda, cuda_kernels::forward);
  table.add<ConvBackwardDataKernel>("conv_backward_data", DeviceKind::cuda, cuda_kernels::backward_data);
  table.add<ConvBackwardWeightsKernel>("conv_backward_weights", DeviceKind::cuda,
                                       cuda_kernels::backward_weights);
}

}  // namespace heddle
