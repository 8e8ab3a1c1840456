// The kernels of conv2d that a device provides.
#pragma once

#include <compare>
#include <cstdint>

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

// All numbers of one convolution; index 0 is height, 1 is width.
struct ConvProblem {
  std::int64_t n, channels, in[2];
  std::int64_t outputs, out[2];
  std::int64_t kernel[2], stride[2], padding[2], dilation[2];
  std::int64_t groups;
  bool relu, bias;
  auto operator<=>(const ConvProblem&) const = default;

  std::int64_t in_image() const { return channels * in[0] * in[1]; }  // elements of one image
  std::int64_t out_image() const { return outputs * out[0] * out[1]; }
  std::int64_t weights() const { return outputs * (channels / groups) * kernel[0] * kernel[1]; }
  double flops_per_image() const {
    return 2.0 * static_cast<double>(weights()) * static_cast<double>(out[0] * out[1]);
  }
};

// Arrays are contiguous and of one floating dtype. bias and bias_grad are undefined if !problem.bias. y is
// the result of the forward pass; the backward kernels read it if problem.relu, else it may be undefined.
using ConvForwardKernel = void(const KernelContext& context, const ConvProblem& problem, const NDArray& x,
                               const NDArray& weight, const NDArray& bias, const NDArray& y);
using ConvBackwardDataKernel = void(const KernelContext& context, const ConvProblem& problem,
                                    const NDArray& grad, const NDArray& y, const NDArray& weight,
                                    const NDArray& x_grad);
using ConvBackwardWeightsKernel = void(const KernelContext& context, const ConvProblem& problem,
                                       const NDArray& grad, const NDArray& y, const NDArray& x,
                                       const NDArray& weight_grad, const NDArray& bias_grad);

}  // namespace heddle
