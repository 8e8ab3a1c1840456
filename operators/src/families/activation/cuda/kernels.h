// The kernels of activations for GPUs, in plain types: nvcc compiles C++17. register.cc registers them.
#pragma once

#include "families/elementwise/cuda/kernels.h"

namespace heddle::cuda_kernels {

constexpr int kActivationCount = 12, kActivationWithNumberCount = 6;
extern const Entry kActivations[kActivationCount];
// Gradients; activations with a number, and their derivatives.
extern const Entry kActivationGradients[kActivationCount],
    kActivationsWithNumber[2 * kActivationWithNumberCount];

}  // namespace heddle::cuda_kernels
