// Convolutions: f32 by oneDNN, f64 by loops.
#include "families/conv/cpu/conv.h"

#include <type_traits>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "families/conv/kernels.h"

namespace heddle::cpu_kernels {
namespace {

template <class T> const T* read_or_null(const NDArray& array, bool there) {
  return there ? array.data<const T>() : nullptr;
}

void forward(const KernelContext&, const ConvProblem& p, const NDArray& x, const NDArray& weight,
             const NDArray& bias, const NDArray& y) {
  visit_floating(y.dtype(), [&]<class T>() {
    const T *from = x.data<const T>(), *weights = weight.data<const T>(),
            *biases = read_or_null<T>(bias, p.bias);
    T* const to = y.data<T>();
    if constexpr (std::is_same_v<T, float>)
      if (onednn_takes(p)) return onednn_conv_forward(p, from, weights, biases, to);
    loop_conv_forward(p, from, weights, biases, to);
  });
}

void backward_data(const KernelContext&, const ConvProblem& p, const NDArray& grad, const NDArray& y,
                   const NDArray& weight, const NDArray& x_grad) {
  visit_floating(grad.dtype(), [&]<class T>() {
    const T *g = grad.data<const T>(), *result = read_or_null<T>(y, p.relu),
            *weights = weight.data<const T>();
    T* const to = x_grad.data<T>();
    if constexpr (std::is_same_v<T, float>)
      if (onednn_takes(p)) return onednn_conv_backward_data(p, g, result, weights, to);
    loop_conv_backward_data(p, g, result, weights, to);
  });
}

void backward_weights(const KernelContext&, const ConvProblem& p, const NDArray& grad, const NDArray& y,
                      const NDArray& x, const NDArray& weight_grad, const NDArray& bias_grad) {
  visit_floating(grad.dtype(), [&]<class T>() {
    const T *g = grad.data<const T>(), *result = read_or_null<T>(y, p.relu), *from = x.data<const T>();
    T *const weights = weight_grad.data<T>(), *const biases = p.bias ? bias_grad.data<T>() : nullptr;
    if constexpr (std::is_same_v<T, float>)
      if (onednn_takes(p)) return onednn_conv_backward_weights(p, g, result, from, weights, biases);
    loop_conv_backward_weights(p, g, result, from, weights, biases);
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(conv) {
  table.add<ConvForwardKernel>("conv", DeviceKind::cpu, forward);
  table.add<ConvBackwardDataKernel>("conv_backward_data", DeviceKind::cpu, backward_data);
  table.add<ConvBackwardWeightsKernel>("conv_backward_weights", DeviceKind::cpu, backward_weights);
}

}  // namespace heddle::cpu_kernels
