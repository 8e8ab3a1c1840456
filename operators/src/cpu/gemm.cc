#include "cpu/gemm.h"

#include <algorithm>
#include <cblas.h>
#include <dnnl.h>
#include <functional>
#include <limits>
#include <string>
#include <vector>

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

// The product of a row and a column, for which the libraries' matrix products are slow: short sums in lanes,
// which are added in f64.
template <class T>
double dot(std::int64_t k, const T* a, std::int64_t a_step, const T* b, std::int64_t b_step) {
  constexpr std::int64_t kLanes = 64 / sizeof(T), kBlock = 64 * kLanes;
  double total = 0;
  for (std::int64_t begin = 0; begin < k; begin += kBlock) {
    const std::int64_t n = std::min(kBlock, k - begin), whole = n / kLanes * kLanes;
    const T *x = a + begin * a_step, *y = b + begin * b_step;
    T lanes[kLanes] = {};
    if (a_step == 1 && b_step == 1) {
      for (std::int64_t i = 0; i < whole; i += kLanes) {
        for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += x[i + lane] * y[i + lane];
      }
    } else {
      for (std::int64_t i = 0; i < whole; i += kLanes) {
        for (std::int64_t lane = 0; lane < kLanes; ++lane)
          lanes[lane] += x[(i + lane) * a_step] * y[(i + lane) * b_step];
      }
    }
    for (std::int64_t i = whole; i < n; ++i) lanes[i - whole] += x[i * a_step] * y[i * b_step];
    for (const T lane : lanes) total += static_cast<double>(lane);
  }
  return total;
}

template <class T>
void dot(std::int64_t k, const GemmOperand<T>& a, const GemmOperand<T>& b, T* c, bool accumulate) {
  const double product = dot(k, a.data, a.transposed ? a.stride : 1, b.data, b.transposed ? 1 : b.stride);
  *c = static_cast<T>(accumulate ? static_cast<double>(*c) + product : product);
}

void sgemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmOperand<float> a, GemmOperand<float> b,
           float* c, std::int64_t ldc, bool accumulate) {
  const dnnl_status_t status =
      dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0f, a.data, a.stride, b.data,
                 b.stride, accumulate ? 1.0f : 0.0f, c, ldc);
  if (status != dnnl_success)
    throw Error("matmul: oneDNN's sgemm failed with status " + std::to_string(status));
}

// Few results are computed as short sums by oneDNN, which are added in f64. oneDNN alone would add the
// products of a result one after the other.
constexpr std::int64_t kShortSum = 1024, kFewResults = 4096;

void sgemm_by_short_sums(std::int64_t m, std::int64_t n, std::int64_t k, GemmOperand<float> a,
                         GemmOperand<float> b, float* c, std::int64_t ldc, bool accumulate) {
  std::vector<float> part(static_cast<std::size_t>(m * n));
  std::vector<double> sums(part.size(), 0);
  for (std::int64_t begin = 0; begin < k; begin += kShortSum) {
    sgemm(m, n, std::min(kShortSum, k - begin), a, b, part.data(), n, false);
    std::transform(part.begin(), part.end(), sums.begin(), sums.begin(), std::plus<>());
    a.data += kShortSum * (a.transposed ? a.stride : 1);
    b.data += kShortSum * (b.transposed ? 1 : b.stride);
  }
  for (std::int64_t i = 0; i < m * n; ++i) {
    float& result = c[i / n * ldc + i % n];
    const double sum = sums[static_cast<std::size_t>(i)];
    result = static_cast<float>(accumulate ? static_cast<double>(result) + sum : sum);
  }
}

}  // namespace

// Uses oneDNN's sgemm, not the BLAS's, since oneDNN has AVX-512 code for every machine that can run it.
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmOperand<float> a, GemmOperand<float> b,
          float* c, std::int64_t ldc, bool accumulate) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (!accumulate) clear(m, n, c, ldc);
    return;
  }
  if (m == 1 && n == 1) return dot(k, a, b, c, accumulate);
  OneLibraryThread one;
  const bool few = m == 1 || n == 1 || m * n <= kFewResults;
  (few && k > kShortSum ? sgemm_by_short_sums : sgemm)(m, n, k, a, b, c, ldc, accumulate);
}

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, GemmOperand<double> a, GemmOperand<double> b,
          double* c, std::int64_t ldc, bool accumulate) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    if (!accumulate) clear(m, n, c, ldc);
    return;
  }
  if (m == 1 && n == 1) return dot(k, a, b, c, accumulate);
  OneLibraryThread one;
  cblas_dgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
              b.transposed ? CblasTrans : CblasNoTrans, blas_int(m), blas_int(n), blas_int(k), 1.0, a.data,
              blas_int(a.stride), b.data, blas_int(b.stride), accumulate ? 1.0 : 0.0, c, blas_int(ldc));
}

}  // namespace heddle::cpu_kernels
