// The exponential of a stack of matrices on a GPU, in steps between which the caller multiplies matrices; in plain types.
// Computed as on the CPU: Pade's approximation of x / 2^s is squared s times. Each matrix has an s of its own, found on the GPU.
#pragma once

namespace heddle::cuda_kernels::linalg {

struct ExpmState {
  double size;                     // the norm of the input
  int shift, squarings;            // the input was divided by 2^shift first; s
  bool finite, upper, triangular;  // an upper triangle is computed as its transpose
};

// Eight blocks of `count` matrices (n, n), row-major. The input, later x / 2^s, is in block 0, its powers 2, 4 and 6 in 1 to 3.
struct Expm {
  long long n, count;
  double* blocks;
  ExpmState* states;
  double *diagonal, *beside;  // n for each matrix: the diagonal of a triangle, and what is left of it

  double* block(int i) const { return blocks + i * n * n * count; }
};

constexpr int kExpmSteps = 24;  // squarings by a launch each; more are made by a block a matrix

// Functions enqueue work on a cudaStream_t and return why they could not; null if they could. T is float or double.
template <class T> const char* expm_begin(void* stream, const Expm& of, const T* x);
// Divides the input, whose powers 6, 8 and 10 are in blocks 3 to 5, as the norms of those want it.
const char* expm_scale(void* stream, const Expm& of);
// Sums of powers: blocks 6 and 7, which the caller multiplies by the sixth power into 4 and 5; then the rest of both sums. Of
// even powers, and of odd ones over x.
const char* expm_first_sums(void* stream, const Expm& of);
const char* expm_last_sums(void* stream, const Expm& of);
// Block 7 = block 4 + 6, block 4 -= block 6.
const char* expm_combine(void* stream, const Expm& of);
// Squares block 7 as often as each matrix wants it, and writes the results.
template <class T> const char* expm_end(void* stream, const Expm& of, T* y);

}  // namespace heddle::cuda_kernels::linalg
