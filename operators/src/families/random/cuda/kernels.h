// The kernel of dropout for GPUs, in plain types: nvcc compiles C++17. register.cc registers it.
#pragma once

namespace heddle::cuda_kernels {

// y[i] is x[i] * scale + shift where the mask's element i / inner is not 0, else `dropped`. All are contiguous, f64 if `wide`, else f32.
struct DropoutCall {
  const void *x, *mask;
  void* y;
  long long count, inner;
  double scale, shift, dropped;
  bool wide;
};
// Returns why the kernel could not be launched; null if it was.
const char* launch_dropout(void* stream, const DropoutCall& call);

}  // namespace heddle::cuda_kernels
