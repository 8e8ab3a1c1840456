// Convolutions: f32 and bf16 by oneDNN, f64 by loops; halves that oneDNN has no code for as f32.
#include "families/conv/cpu/conv.h"

#include <heddle/half.h>

#include "core/kernel_table.h"
#include "cpu/gemm_half.h"
#include "cpu/scratch.h"
#include "families/conv/kernels.h"

namespace heddle::cpu_kernels {
namespace {

template <class T> const T* read_or_null(const NDArray& array, bool there) {
  return there ? array.data<const T>() : nullptr;
}

// An array as f32: its memory, or that of a copy.
class Wide {
 public:
  explicit Wide(const NDArray& array, bool there = true)
      : copy_(there && is_half(array.dtype()) ? sizeof(float) * static_cast<std::size_t>(array.size()) : 0) {
    if (!there) return;
    if (array.dtype() == DType::f32) {
      data_ = array.data<const float>();
      return;
    }
    visit_half(array.dtype(),
               [&]<class H>() { widen_all(array.data<const H>(), copy_.as<float>(), array.size()); });
    data_ = copy_.as<const float>();
  }
  const float* data() const { return data_; }

  template <class F> static void visit_half(DType dtype, const F& fn) {
    if (dtype == DType::f16) {
      fn.template operator()<Float16>();
    } else {
      fn.template operator()<BFloat16>();
    }
  }

 private:
  Scratch copy_;
  const float* data_ = nullptr;
};

// Memory in which an array's values are made as f32: its own, or other memory, which finish() narrows into the array.
class MadeWide {
 public:
  explicit MadeWide(const NDArray& array, bool there = true)
      : array_(array),
        half_(there && is_half(array.dtype())),
        copy_(half_ ? sizeof(float) * static_cast<std::size_t>(array.size()) : 0),
        data_(half_   ? copy_.as<float>()
              : there ? array.data<float>()
                      : nullptr) {}
  float* data() const { return data_; }
  void finish() const {
    if (!half_) return;
    Wide::visit_half(array_.dtype(), [&]<class H>() { narrow_all(data_, array_.data<H>(), array_.size()); });
  }

 private:
  const NDArray& array_;
  bool half_;
  Scratch copy_;
  float* data_;
};

bool is_native(const ConvProblem& p, const NDArray& array, ConvPass pass) {
  return array.dtype() == DType::bf16 && onednn_takes_bf16(p, pass);
}

void forward(const KernelContext&, const ConvProblem& p, const NDArray& x, const NDArray& weight,
             const NDArray& bias, const NDArray& y) {
  if (y.dtype() == DType::f64)
    return loop_conv_forward(p, x.data<const double>(), weight.data<const double>(),
                             read_or_null<double>(bias, p.bias), y.data<double>());
  const Wide biases(bias, p.bias);
  if (is_native(p, y, ConvPass::forward))
    return onednn_conv_forward(p, x.data<const BFloat16>(), weight.data<const BFloat16>(), biases.data(),
                               y.data<BFloat16>());
  const MadeWide to(y);
  const Wide from(x), weights(weight);
  (onednn_takes(p) ? onednn_conv_forward<float> : loop_conv_forward<float>)(p, from.data(), weights.data(),
                                                                            biases.data(), to.data());
  to.finish();
}

void backward_data(const KernelContext&, const ConvProblem& p, const NDArray& grad, const NDArray& y,
                   const NDArray& weight, const NDArray& x_grad) {
  if (grad.dtype() == DType::f64)
    return loop_conv_backward_data(p, grad.data<const double>(), read_or_null<double>(y, p.relu),
                                   weight.data<const double>(), x_grad.data<double>());
  if (is_native(p, grad, ConvPass::backward_data))
    return onednn_conv_backward_data(p, grad.data<const BFloat16>(), read_or_null<BFloat16>(y, p.relu),
                                     weight.data<const BFloat16>(), x_grad.data<BFloat16>());
  const MadeWide to(x_grad);
  const Wide g(grad), result(y, p.relu), weights(weight);
  (onednn_takes(p) ? onednn_conv_backward_data<float>
                   : loop_conv_backward_data<float>)(p, g.data(), result.data(), weights.data(), to.data());
  to.finish();
}

void backward_weights(const KernelContext&, const ConvProblem& p, const NDArray& grad, const NDArray& y,
                      const NDArray& x, const NDArray& weight_grad, const NDArray& bias_grad) {
  if (grad.dtype() == DType::f64)
    return loop_conv_backward_weights(p, grad.data<const double>(), read_or_null<double>(y, p.relu),
                                      x.data<const double>(), weight_grad.data<double>(),
                                      p.bias ? bias_grad.data<double>() : nullptr);
  const MadeWide weights(weight_grad), biases(bias_grad, p.bias);
  if (is_native(p, grad, ConvPass::backward_weights)) {
    onednn_conv_backward_weights(p, grad.data<const BFloat16>(), read_or_null<BFloat16>(y, p.relu),
                                 x.data<const BFloat16>(), weights.data(), biases.data());
  } else {
    const Wide g(grad), result(y, p.relu), from(x);
    (onednn_takes(p) ? onednn_conv_backward_weights<float>
                     : loop_conv_backward_weights<float>)(p, g.data(), result.data(), from.data(),
                                                          weights.data(), biases.data());
  }
  weights.finish();
  biases.finish();
}

}  // namespace

HEDDLE_CPU_KERNELS(conv) {
  table.add<ConvForwardKernel>("conv", DeviceKind::cpu, forward);
  table.add<ConvBackwardDataKernel>("conv_backward_data", DeviceKind::cpu, backward_data);
  table.add<ConvBackwardWeightsKernel>("conv_backward_weights", DeviceKind::cpu, backward_weights);
}

}  // namespace heddle::cpu_kernels
