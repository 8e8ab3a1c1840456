// The kernels of convolutions that a device provides.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

#include "families/conv/spatial_kernels.h"

namespace heddle {

// All numbers of one convolution.
struct ConvProblem {
  int axes;  // of the images: 1 to 3
  std::int64_t n, channels, outputs, groups;
  Spatial in, out;
  Spatial kernel, stride, dilation;
  Spatial padding;  // before each axis; what is behind it follows from the sizes
  bool relu, bias;
  auto operator<=>(const ConvProblem&) const = default;

  std::int64_t in_image() const { return channels * volume(in); }  // elements of one image
  std::int64_t out_image() const { return outputs * volume(out); }
  std::int64_t weights() const { return outputs * (channels / groups) * volume(kernel); }
  // Of all images; the largest number if there are more.
  std::int64_t multiply_adds() const {
    const double count = static_cast<double>(n) * flops_per_image() / 2;
    return count < 0x1p63 ? static_cast<std::int64_t>(count) : std::numeric_limits<std::int64_t>::max();
  }
  double flops_per_image() const {
    double count = 2.0 * static_cast<double>(weights());
    for (const std::int64_t size : out) count *= static_cast<double>(size);
    return count;
  }
};

// Arrays are contiguous and of one floating dtype; beside halves bias, weight_grad and bias_grad may be f32. bias and bias_grad
// are undefined if !problem.bias. y is the result of the forward pass; the backward kernels read it if problem.relu, else it may be undefined.
using ConvForwardKernel = void(const KernelContext& context, const ConvProblem& problem, const NDArray& x,
                               const NDArray& weight, const NDArray& bias, const NDArray& y);
using ConvBackwardDataKernel = void(const KernelContext& context, const ConvProblem& problem,
                                    const NDArray& grad, const NDArray& y, const NDArray& weight,
                                    const NDArray& x_grad);
using ConvBackwardWeightsKernel = void(const KernelContext& context, const ConvProblem& problem,
                                       const NDArray& grad, const NDArray& y, const NDArray& x,
                                       const NDArray& weight_grad, const NDArray& bias_grad);

}  // namespace heddle
