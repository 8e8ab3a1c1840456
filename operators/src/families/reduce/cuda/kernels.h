// The reductions for GPUs, in plain types: nvcc compiles C++17. register.cc registers them.
#pragma once

#include "cuda/scratch.h"

namespace heddle::cuda_kernels {

constexpr int kReduceDims = 8;  // kMaxDims

// x reduced over some axes to y, which has one element at least.
struct Reduction {
  int dims;
  long long sizes[kReduceDims];  // of x
  long long x_strides[kReduceDims], y_strides[kReduceDims];
  bool reduced[kReduceDims];
  const void* x;  // null if no elements are reduced
  void* y;
  unsigned char dtype, result;  // DTypes
};

enum class Fold { sum, prod, mean, sum_of_squares, norm, max, min, any, all, count_nonzero, argmax, argmin };

// Launches the kernels on a cudaStream_t. Returns why they could not be launched; null if they were.
const char* launch_reduce(void* stream, Fold fold, const Reduction& reduction, ScratchBlocks& scratch);

// The mean of `count` adjacent f64 numbers, 0 or more, of dtype `result`.
const char* launch_mean_of(void* stream, const double* values, long long count, void* mean,
                           unsigned char result, ScratchBlocks& scratch);

}  // namespace heddle::cuda_kernels
