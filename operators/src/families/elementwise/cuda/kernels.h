// The elementwise kernels for GPUs, in plain types: nvcc compiles C++17. cuda.cc registers them.
#pragma once

namespace heddle::cuda_kernels {

constexpr int kDims = 8;  // kMaxDims

// An array, or one number that stands for all elements.
struct Source {
  const void* data;  // the first element; null for a number
  long long strides[kDims];
  unsigned char number[8];  // of the operands' dtype; for f16 and bf16 a float, except in launch_where
};

// y[i] = f(in[0][i], in[1][i], in[2][i]) for all i of the shape, which has one element at least.
struct Elements {
  int dims;
  long long sizes[kDims];
  Source in[3];
  void* out;
  long long out_strides[kDims];
  unsigned char dtype, result;  // of the operands, and of y: DTypes
};

// Launches a kernel on a cudaStream_t. Returns why it could not be launched; null if it was.
using Launch = const char* (*)(void* stream, const Elements& elements);

struct Entry {
  const char* op;
  Launch launch;
};

constexpr int kUnaryCount = 10, kBinaryCount = 23;
extern const Entry kUnary[kUnaryCount], kBinary[kBinaryCount];
const char* launch_where(void* stream, const Elements& elements);

}  // namespace heddle::cuda_kernels
