// The two implementations of convolution: oneDNN for f32, loops for f64. Memory is row-major: images (N, C, D, H, W),
// weights (O, C / groups, kd, kh, kw). bias and bias_grad are null if there is no bias; y is null unless the problem ends
// in a relu.
#pragma once

#include "families/conv/kernels.h"

namespace heddle::cpu_kernels {

void onednn_conv_forward(const ConvProblem& problem, const float* x, const float* weight, const float* bias,
                         float* y);
void onednn_conv_backward_data(const ConvProblem& problem, const float* grad, const float* y,
                               const float* weight, float* x_grad);
void onednn_conv_backward_weights(const ConvProblem& problem, const float* grad, const float* y,
                                  const float* x, float* weight_grad, float* bias_grad);

void loop_conv_forward(const ConvProblem& problem, const double* x, const double* weight, const double* bias,
                       double* y);
void loop_conv_backward_data(const ConvProblem& problem, const double* grad, const double* y,
                             const double* weight, double* x_grad);
void loop_conv_backward_weights(const ConvProblem& problem, const double* grad, const double* y,
                                const double* x, double* weight_grad, double* bias_grad);

}  // namespace heddle::cpu_kernels
