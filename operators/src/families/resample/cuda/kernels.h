// Resampling on a GPU, in plain types: nvcc compiles C++17. register.cc registers it.
#pragma once

namespace heddle::cuda_kernels {

// Output i along an axis is made of the entries from begin[i] to begin[i + 1]: input elements `index`, times `weight`. All in the GPU's
// memory; weights are of the arrays' type.
struct AxisEntries {
  const long long *begin, *index;
  const void* weight;
  long long in, out;
  bool identity;  // each output is the input in its place
};

// x (planes, in...) and y (planes, out...) are dense; y has an element at least.
struct Resample {
  AxisEntries axes[3];
  long long planes;
  const void* x;
  void* y;
  int bytes;  // of an element
};

// Sums of f32 or f64. Returns why a kernel could not be launched; null if it was.
const char* launch_resample(void* stream, const Resample& resample);
// Copies the one entry of each output along each axis.
const char* launch_nearest(void* stream, const Resample& resample);

}  // namespace heddle::cuda_kernels
