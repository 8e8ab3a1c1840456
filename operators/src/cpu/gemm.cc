#include "cpu/gemm.h"

#include <algorithm>
#include <cblas.h>
#include <dnnl.h>
#include <limits>
#include <string>

#include <heddle/error.h>

#include "cpu/library_threads.h"

namespace heddle::cpu_kernels {
namespace {

template <class T> void clear(std::int64_t m, std::int64_t n, T* c, std::int64_t ldc) {
  for (std::int64_t i = 0; i < m; ++i) std::fill_n(c + i * ldc, n, T(0));
}

int blas_int(std::int64_t value) {
  if (value > std::numeric_limits<int>::max()) {
    throw Error("matmul: " + std::to_string(value) + " is beyond the 32-bit sizes of BLAS");
  }
  return static_cast<int>(value);
}

}  // namespace

// oneDNN's sgemm, not the BLAS's: it has AVX-512 code for every machine that can run it.
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmOperand<float> a, GemmOperand<float> b,
          float* c, std::int64_t ldc, bool accumulate) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (!accumulate) clear(m, n, c, ldc);
    return;
  }
  OneLibraryThread one;
  const dnnl_status_t status =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0f, a.data, a.stride, b.data,
                 b.stride, accumulate ? 1.0f : 0.0f, c, ldc);
  if (status != dnnl_success)
    throw Error("matmul: oneDNN's sgemm failed with status " + std::to_string(status));
}

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmOperand<double> a, GemmOperand<double> b,
          double* c, std::int64_t ldc, bool accumulate) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (!accumulate) clear(m, n, c, ldc);
    return;
  }
  OneLibraryThread one;
  cblas_dgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
              b.transposed ? CblasTrans : CblasNoTrans, blas_int(m), blas_int(n), blas_int(k), 1.0, a.data,
              blas_int(a.stride), b.data, blas_int(b.stride), accumulate ? 1.0 : 0.0, c, blas_int(ldc));
}

}  // namespace heddle::cpu_kernels
