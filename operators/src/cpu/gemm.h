// Matrix products on raw memory, on the calling thread only.
#pragma once

#include <cstdint>
#include <type_traits>

namespace heddle::cpu_kernels {

// A row-major matrix as passed to BLAS: `transposed` if memory holds its transpose; `stride` between the rows
// in memory.
template <class T> struct GemmOperand {
  const T* data;
  std::int64_t stride;
  bool transposed;
};

// c (m, n; row stride ldc) = a (m, k) * b (k, n), added to c if `accumulate`. f32 by oneDNN, f64 by the
// system's BLAS, integers and bool by loops. Any of m, n, k may be 0.
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmOperand<float> a, GemmOperand<float> b,
          float* c, std::int64_t ldc, bool accumulate);
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmOperand<double> a, GemmOperand<double> b,
          double* c, std::int64_t ldc, bool accumulate);

// sum + a * b. Integers wrap around as in NumPy, where C++'s signed arithmetic would be undefined.
template <class T> T wrapping_add_product(T sum, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return sum || (a && b);
  } else {
    return static_cast<T>(static_cast<std::uint64_t>(sum) +
                          static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  }
}

template <class T>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmOperand<T> a, GemmOperand<T> b, T* c,
          std::int64_t ldc, bool accumulate) {
  const std::int64_t a_row = a.transposed ? 1 : a.stride, a_col = a.transposed ? a.stride : 1;
  const std::int64_t b_row = b.transposed ? 1 : b.stride, b_col = b.transposed ? b.stride : 1;
  for (std::int64_t i = 0; i < m; ++i) {
    T* row = c + i * ldc;
    if (!accumulate) {
      for (std::int64_t j = 0; j < n; ++j) row[j] = T(0);
    }
    for (std::int64_t l = 0; l < k; ++l) {
      const T factor = a.data[i * a_row + l * a_col];
      const T* b_line = b.data + l * b_row;
      for (std::int64_t j = 0; j < n; ++j) row[j] = wrapping_add_product(row[j], factor, b_line[j * b_col]);
    }
  }
}

}  // namespace heddle::cpu_kernels
