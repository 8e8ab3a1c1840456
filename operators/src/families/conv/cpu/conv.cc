// Convolutions: f32 by oneDNN, f64 by loops.
#include "families/conv/cpu/conv.h"

#include "core/kernel_table.h"
#include "families/conv/kernels.h"

namespace heddle::cpu_kernels {
namespace {

void forward(const KernelContext&, const ConvProblem& problem, const NDArray& x, const NDArray& weight,
             const NDArray& bias, const NDArray& y) {
  if (y.dtype() == DType::f32) {
    onednn_conv_forward(problem, x.data<const float>(), weight.data<const float>(),
                        problem.bias ? bias.data<const float>() : nullptr, y.data<float>());
  } else {
    loop_conv_forward(problem, x.data<const double>(), weight.data<const double>(),
                      problem.bias ? bias.data<const double>() : nullptr, y.data<double>());
  }
}

void backward_data(const KernelContext&, const ConvProblem& problem, const NDArray& grad, const NDArray& y,
                   const NDArray& weight, const NDArray& x_grad) {
  if (grad.dtype() == DType::f32) {
    onednn_conv_backward_data(problem, grad.data<const float>(),
                              problem.relu ? y.data<const float>() : nullptr, weight.data<const float>(),
                              x_grad.data<float>());
  } else {
    loop_conv_backward_data(problem, grad.data<const double>(),
                            problem.relu ? y.data<const double>() : nullptr, weight.data<const double>(),
                            x_grad.data<double>());
  }
}

void backward_weights(const KernelContext&, const ConvProblem& problem, const NDArray& grad, const NDArray& y,
                      const NDArray& x, const NDArray& weight_grad, const NDArray& bias_grad) {
  if (grad.dtype() == DType::f32) {
    onednn_conv_backward_weights(problem, grad.data<const float>(),
                                 problem.relu ? y.data<const float>() : nullptr, x.data<const float>(),
                                 weight_grad.data<float>(), problem.bias ? bias_grad.data<float>() : nullptr);
  } else {
    loop_conv_backward_weights(problem, grad.data<const double>(),
                               problem.relu ? y.data<const double>() : nullptr, x.data<const double>(),
                               weight_grad.data<double>(), problem.bias ? bias_grad.data<double>() : nullptr);
  }
}

}  // namespace

HEDDLE_CPU_KERNELS(conv) {
  table.add<ConvForwardKernel>("conv", DeviceKind::cpu, forward);
  table.add<ConvBackwardDataKernel>("conv_backward_data", DeviceKind::cpu, backward_data);
  table.add<ConvBackwardWeightsKernel>("conv_backward_weights", DeviceKind::cpu, backward_weights);
}

}  // namespace heddle::cpu_kernels
