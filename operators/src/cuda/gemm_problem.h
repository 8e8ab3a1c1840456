// A product of matrices on a GPU, in plain types: nvcc compiles C++17.
#pragma once

namespace heddle::cuda_kernels {

// A row-major matrix: `transposed` if memory holds its transpose; `stride` between the rows in memory, in elements.
struct GemmMatrix {
  const void* data;
  long long stride;
  bool transposed;
};

// Axes along which two stacks of matrices lie; the last axis is the fastest. Steps are in elements.
struct GemmAxes {
  static constexpr int kMost = 8;
  int dims;  // 0: one matrix
  long long sizes[kMost];
  long long a[kMost], b[kMost];

  constexpr long long count() const {
    long long product = 1;
    for (int d = 0; d < dims; ++d) product *= sizes[d];
    return product;
  }
};

// For each of `batches`: d = alpha * (the sum over `terms` of a (m, k) * b (k, n)) + beta * d + bias, then max(0, .) if relu.
// The sum is of f32 where a and b are halves, and is rounded once. Integers wrap around; sums of bool are "or".
struct Gemm {
  long long m, n, k;
  GemmMatrix a, b;
  GemmAxes batches, terms;
  void* d;
  long long d_stride, d_batch;  // between rows, and between the batches, in elements
  unsigned char type;           // DType of a and b
  unsigned char d_type;         // that of d: the same, or f32 beside halves
  double alpha, beta;           // 1 and 0 or 1 for integers
  const void* bias;             // n elements, or null
  unsigned char bias_type;      // d's, or f32 beside halves
  bool relu;
};

}  // namespace heddle::cuda_kernels
