// The elementwise kernels for GPUs, in plain types: nvcc compiles C++17. register.cc registers them.
#pragma once

#include "cuda/fault_slot.h"

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

// Kernels of one and of two operands. Those named Math are of elementwise_math.h.
constexpr int kUnaryCount = 10, kBinaryCount = 23, kRoundingCount = 10, kUnaryMathCount = 25,
              kBinaryMathCount = 14;
extern const Entry kUnary[kUnaryCount], kBinary[kBinaryCount], kRounding[kRoundingCount],
    kUnaryMath[kUnaryMathCount], kBinaryMath[kBinaryMathCount];
const char* launch_where(void* stream, const Elements& elements);
// in[1] and in[2] are the bounds.
const char* launch_clip(void* stream, const Elements& elements);
// in[0] where the index along the last axis, of `columns`, minus that along the one before, of `rows`, is not above k, or with
// `upper` not below k; 0 elsewhere.
const char* launch_triangle(void* stream, const Elements& elements, long long rows, long long columns,
                            long long k, bool upper);
// Reports the first exponent below 0 among the elements of in[0], which are signed integers.
const char* launch_exponent_check(void* stream, const Elements& elements, FaultSlot* slot);

}  // namespace heddle::cuda_kernels
