// Kernel types of the normalisations.
#pragma once

#include <cstdint>

#include <heddle/kernel_context.h>
#include <heddle/ndarray.h>

namespace heddle {

// A contiguous array of rows x channels x inner elements. A channel's weight is at (row % groups) * channels + channel.
struct NormProblem {
  std::int64_t rows, groups, channels, inner;
  // Statistics are those of each channel over rows and inner, and groups is 1; else those of each row.
  bool of_channels;
  bool centered;  // false: the mean counts as 0
  double epsilon;

  std::int64_t statistics() const { return of_channels ? channels : rows; }
  std::int64_t weights() const { return groups * channels; }
};

// Arrays are contiguous, of one floating dtype; beside an x of halves all but y are f32. weight and bias may be undefined. mean, and scale = 1 / sqrt(variance +
// epsilon), have an element for each statistic; so has the variance, unless it is undefined.
using NormKernel = void(const KernelContext& context, const NormProblem& problem, const NDArray& x,
                        const NDArray& weight, const NDArray& bias, const NDArray& y, const NDArray& mean,
                        const NDArray& scale, const NDArray& variance);

// The gradients of x, weight and bias from g, that of y, in the dtypes of these; those that are undefined are not wanted.
struct NormGradients {
  NDArray x, weight, bias;
};
using NormBackwardKernel = void(const KernelContext& context, const NormProblem& problem, const NDArray& g,
                                const NDArray& x, const NDArray& weight, const NDArray& mean,
                                const NDArray& scale, const NormGradients& gradients);

}  // namespace heddle
