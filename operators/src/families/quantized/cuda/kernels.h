// Products of 8-bit integers on a GPU, in plain types: nvcc compiles C++17. register.cc registers them.
#pragma once

#include <cstddef>

namespace heddle::cuda_kernels {

// What both products have beside the input. Arrays are dense; all are on the GPU.
struct ByteWeights {
  const signed char* weight;  // (outputs, products)
  const float* weight_scale;  // (outputs)
  const float* input_scale;   // one element; so has the zero point
  const int* zero_point;
  const float* bias;  // (outputs), or null
  long long outputs, products;
  bool relu;
};

// x (rows, products) -> y (rows, outputs).
struct ByteLinear {
  ByteWeights weights;
  long long rows;
  const float* x;
  float* y;
};

// x (n, groups * channels, in...) -> y (n, outputs, out...). channels: of a group.
struct ByteConv {
  ByteWeights weights;
  long long n, groups, channels;
  long long in[3], out[3], kernel[3], stride[3], dilation[3], padding[3];
  const float* x;
  float* y;
};

// Bytes of scratch memory; and launches on a cudaStream_t, of results that are not empty, which return why a kernel could not be
// launched; null if all were.
std::size_t byte_linear_bytes(const ByteLinear& p);
const char* launch_byte_linear(void* stream, const ByteLinear& p, std::byte* space);
std::size_t byte_conv_bytes(const ByteConv& p);
const char* launch_byte_conv(void* stream, const ByteConv& p, std::byte* space);

}  // namespace heddle::cuda_kernels
