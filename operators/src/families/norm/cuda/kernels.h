// The kernels of the normalisations for GPUs, in plain types: nvcc compiles C++17. register.cc registers them.
#pragma once

#include "cuda/scratch.h"

namespace heddle::cuda_kernels {

// As NormProblem.
struct Norm {
  long long rows, groups, channels, inner;
  bool of_channels, centered;
  double epsilon;
  unsigned char dtype;        // of x, y, g and x_grad: a DType; beside f64 all else is f64, else f32
  const void* x;              // null if it is empty
  const void *weight, *bias;  // null: 1, 0
};

struct NormOutputs {
  void *y, *mean, *scale, *variance;  // variance: null if it is not wanted
};

// Gradients that are null are not wanted.
struct NormGradientArrays {
  const void *g, *mean, *scale;
  void *x, *weight, *bias;
};

// Launch kernels on a cudaStream_t. Return why one could not be launched; null if all were.
const char* launch_norm(void* stream, const Norm& norm, const NormOutputs& out, ScratchBlocks& scratch);
const char* launch_norm_backward(void* stream, const Norm& norm, const NormGradientArrays& arrays,
                                 ScratchBlocks& scratch);

}  // namespace heddle::cuda_kernels
