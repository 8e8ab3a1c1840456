// Convolutions on a GPU by Heddle's own kernels, in plain types: nvcc compiles C++17. The library's seam: register.cc.
#pragma once

namespace heddle::cuda_kernels {

// Arrays are dense: images (n, groups * channels, in...) and (n, groups * outputs, out...), weights (groups * outputs, channels,
// kernel...). Dtypes are DType's numbers.
struct Convolution {
  long long n, groups, channels, outputs;  // of a group
  long long in[3], out[3], kernel[3], stride[3], dilation[3], padding[3];
  long long in_volume, out_volume, taps;
  const void *x, *weight, *bias;  // bias: null if there is none
  const void *g, *y;              // gradient of the result; y is null unless a relu follows
  void *to, *bias_to;             // what is computed; bias_to: null if there is no bias
  unsigned char type;             // of x, weight, g and y
  unsigned char to_type, bias_type, bias_to_type;
  bool relu;
};

enum class ConvTask { forward, data, weights };

// Bytes of memory for the parts of sums.
long long conv_bytes(ConvTask task, const Convolution& conv);
// The result is not empty; `parts` is conv_bytes() of memory. Returns why a kernel could not be launched; null if all were.
const char* launch_conv(void* stream, ConvTask task, const Convolution& conv, void* parts);

}  // namespace heddle::cuda_kernels
