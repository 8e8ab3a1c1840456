// Normalisation: arrays are moved to mean 0 and scaled to variance 1 over some axes, then weighted. Floating dtypes; all
// differentiable. Halves are computed as f32.
#pragma once

#include <array>
#include <cstdint>

#include <heddle/ndarray.h>

namespace heddle {

// (x - mean) / sqrt(variance + epsilon) * weight + bias over the last `axes` axes, whose sizes are the shape of weight and bias
// (Ba et al., arXiv:1607.06450). Undefined weight, bias: 1, 0.
NDArray layer_norm(const NDArray& x, const NDArray& weight = {}, const NDArray& bias = {}, int axes = 1,
                   double epsilon = 1e-5, Where where = Where::current());

// x / sqrt(mean(x^2) + epsilon) * weight over the last `axes` axes (Zhang and Sennrich, NeurIPS'19).
NDArray rms_norm(const NDArray& x, const NDArray& weight = {}, int axes = 1, double epsilon = 1e-6,
                 Where where = Where::current());

// x (N, C, ...) over each of `groups` parts of the channels of one element of the batch (Wu and He, ECCV'18); weight, bias (C).
// C groups are instance norm. Throws InvalidArgument unless groups divides C.
NDArray group_norm(const NDArray& x, std::int64_t groups, const NDArray& weight = {},
                   const NDArray& bias = {}, double epsilon = 1e-5, Where where = Where::current());

// x (N, C, ...) over all axes but that of the channels (Ioffe and Szegedy, ICML'15); weight, bias (C). Returns the result, and the mean
// and the variance (C) of x, which have no gradient.
std::array<NDArray, 3> batch_norm(const NDArray& x, const NDArray& weight = {}, const NDArray& bias = {},
                                  double epsilon = 1e-5, Where where = Where::current());
// The same with a mean and a variance (C) that are given, as in inference.
NDArray batch_norm_with(const NDArray& x, const NDArray& mean, const NDArray& variance,
                        const NDArray& weight = {}, const NDArray& bias = {}, double epsilon = 1e-5,
                        Where where = Where::current());

}  // namespace heddle
