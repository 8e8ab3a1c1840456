// The two implementations of convolution: oneDNN for f32 and bf16, loops for f64 and for what oneDNN refuses. Memory is row-major: images (N, C, D, H, W),
// weights (O, C / groups, kd, kh, kw). bias and bias_grad are null if there is no bias; y is null unless the problem ends
// in a relu.
#pragma once

#include "families/conv/kernels.h"

namespace heddle::cpu_kernels {

// Whether oneDNN takes the problem. It refuses images with a stride or more behind the last window, as output_padding makes, and is not
// asked for steps and paddings of more than 2^20.
bool onednn_takes(const ConvProblem& problem);
// Whether it also takes bf16, with code for this machine: a convolution, and its gradients of x and of weights.
enum class ConvPass : std::uint8_t { forward, backward_data, backward_weights };
bool onednn_takes_bf16(const ConvProblem& problem, ConvPass pass);
// T: float or BFloat16.
template <class T>
void onednn_conv_forward(const ConvProblem& problem, const T* x, const T* weight, const float* bias, T* y);
template <class T>
void onednn_conv_backward_data(const ConvProblem& problem, const T* grad, const T* y, const T* weight,
                               T* x_grad);
template <class T>
void onednn_conv_backward_weights(const ConvProblem& problem, const T* grad, const T* y, const T* x,
                                  float* weight_grad, float* bias_grad);

// T: float or double.
template <class T>
void loop_conv_forward(const ConvProblem& problem, const T* x, const T* weight, const T* bias, T* y);
template <class T>
void loop_conv_backward_data(const ConvProblem& problem, const T* grad, const T* y, const T* weight,
                             T* x_grad);
template <class T>
void loop_conv_backward_weights(const ConvProblem& problem, const T* grad, const T* y, const T* x,
                                T* weight_grad, T* bias_grad);

}  // namespace heddle::cpu_kernels
