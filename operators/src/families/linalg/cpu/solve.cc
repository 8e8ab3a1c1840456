// Kernels that factor a matrix to solve equations. LAPACK sees a row-major matrix as its transpose.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "cpu/scratch.h"
#include "families/linalg/cpu/lapack.h"
#include "families/linalg/cpu/matrices.h"

namespace heddle::cpu_kernels {

namespace {

using namespace linalg_errors;

std::size_t bytes(std::int64_t count, std::size_t each) { return static_cast<std::size_t>(count) * each; }

// out = L with in[0] = L L^T.
void cholesky_kernel(const KernelContext&, const LinalgCall& call) {
  const Matrices x(call.in[0]);
  const std::int64_t n = x.rows;
  visit_floating(call.in[0].dtype(), [&]<class T>() {
    const T* from = call.in[0].data<const T>();
    T* to = call.out[0].data<T>();
    for_each_matrix(
        call, cube(n) / 3,
        [&](std::int64_t i) {
          T* l = to + i * n * n;
          std::copy_n(from + i * n * n, n * n, l);
          const int info = potrf(lapack_int(n), l);
          for (std::int64_t r = 0; r < n; ++r) std::fill_n(l + r * n + r + 1, n - r - 1, T(0));
          return info;
        },
        not_positive_definite);
  });
}

// out = x with in[0] x = in[1].
void solve_kernel(const KernelContext&, const LinalgCall& call) {
  const std::int64_t n = Matrices(call.in[0]).rows, k = Matrices(call.in[1]).columns;
  visit_floating(call.in[0].dtype(), [&]<class T>() {
    const T *a = call.in[0].data<const T>(), *b = call.in[1].data<const T>();
    T* x = call.out[0].data<T>();
    for_each_matrix(
        call, cube(n) + static_cast<double>(2 * n * n * k),
        [&](std::int64_t i) {
          const Scratch factors(bytes(n * n, sizeof(T))), columns(bytes(n * k, sizeof(T)));
          std::vector<int> pivots(static_cast<std::size_t>(n));
          std::copy_n(a + i * n * n, n * n, factors.as<T>());
          if (const int info = getrf(lapack_int(n), lapack_int(n), factors.as<T>(), pivots.data()))
            return info;
          transpose_matrix(b + i * n * k, n, k, columns.as<T>());
          getrs(true, lapack_int(n), lapack_int(k), factors.as<T>(), pivots.data(), columns.as<T>());
          transpose_matrix(columns.as<T>(), k, n, x + i * n * k);
          return 0;
        },
        singular);
  });
}

// out = x with in[0] x = in[1], reading only the upper triangle of in[0] if `flag`, else the lower one.
void solve_triangular_kernel(const KernelContext&, const LinalgCall& call) {
  const std::int64_t n = Matrices(call.in[0]).rows, k = Matrices(call.in[1]).columns;
  visit_floating(call.in[0].dtype(), [&]<class T>() {
    const T *a = call.in[0].data<const T>(), *b = call.in[1].data<const T>();
    T* x = call.out[0].data<T>();
    for_each_matrix(
        call, static_cast<double>(n * n * k),
        [&](std::int64_t i) {
          const Scratch columns(bytes(n * k, sizeof(T)));
          transpose_matrix(b + i * n * k, n, k, columns.as<T>());
          const int info =
              trtrs(!call.flag, true, lapack_int(n), lapack_int(k), a + i * n * n, columns.as<T>());
          transpose_matrix(columns.as<T>(), k, n, x + i * n * k);
          return info;
        },
        singular);
  });
}

template <class T> void fill_nan(T* x, std::int64_t count) {
  std::fill_n(x, count, std::numeric_limits<T>::quiet_NaN());
}

// Replaces x, which has an infinite element, by its inverse: LAPACK's getri skips the zeros of triangles,
// where infinity times 0 must give NaN.
template <class T> int invert_by_solving(T* x, std::int64_t n, std::vector<int>& pivots) {
  const Scratch lu(bytes(n * n, sizeof(T)));
  std::copy_n(x, n * n, lu.as<T>());
  if (const int info = getrf(lapack_int(n), lapack_int(n), lu.as<T>(), pivots.data())) return info;
  std::fill_n(x, n * n, T(0));
  for (std::int64_t i = 0; i < n; ++i) x[i * n + i] = 1;
  return getrs(false, lapack_int(n), lapack_int(n), lu.as<T>(), pivots.data(), x);
}

// Replaces x by its inverse.
template <class T> int invert(T* x, std::int64_t n) {
  const std::int64_t count = n * n;
  if (std::any_of(x, x + count, [](T value) { return std::isnan(value); })) return fill_nan(x, count), 0;
  std::vector<int> pivots(static_cast<std::size_t>(n));
  if (std::any_of(x, x + count, [](T value) { return std::isinf(value); }))
    return invert_by_solving(x, n, pivots);
  if (const int info = getrf(lapack_int(n), lapack_int(n), x, pivots.data())) return info;
  return getri(lapack_int(n), x, pivots.data());
}

// out = the inverse of in[0]. A singular matrix gives NaN if `flag`, else an error.
void inv_kernel(const KernelContext&, const LinalgCall& call) {
  const std::int64_t n = Matrices(call.in[0]).rows;
  visit_floating(call.in[0].dtype(), [&]<class T>() {
    const T* from = call.in[0].data<const T>();
    T* to = call.out[0].data<T>();
    for_each_matrix(
        call, 2 * cube(n),
        [&](std::int64_t i) {
          T* y = to + i * n * n;
          std::copy_n(from + i * n * n, n * n, y);
          const int info = invert(y, n);
          if (info == 0 || !call.flag) return info;
          fill_nan(y, n * n);
          return 0;
        },
        singular);
  });
}

// out = x that minimizes |in[0] x - in[1]|; singular values up to `number` times the largest count as 0.
void lstsq_kernel(const KernelContext&, const LinalgCall& call) {
  const Matrices a(call.in[0]);
  const std::int64_t m = a.rows, n = a.columns, k = Matrices(call.in[1]).columns, most = std::max(m, n);
  visit_floating(call.in[0].dtype(), [&]<class T>() {
    const T *from = call.in[0].data<const T>(), *b = call.in[1].data<const T>();
    T* x = call.out[0].data<T>();
    for_each_matrix(
        call, 10 * cube(most),
        [&](std::int64_t i) {
          const T *given = from + i * m * n, *right = b + i * m * k;
          if (!all_finite(given, m * n) || !all_finite(right, m * k)) return kNotFinite;
          const Scratch columns(bytes(m * n, sizeof(T))), solution(bytes(most * k, sizeof(T)));
          transpose_matrix(given, m, n, columns.as<T>());
          T* y = solution.as<T>();
          std::fill_n(y, most * k, T(0));
          for (std::int64_t r = 0; r < m; ++r) {
            for (std::int64_t c = 0; c < k; ++c) y[c * most + r] = right[r * k + c];
          }
          const int info = m == 0 || n == 0 || k == 0
                               ? 0
                               : gelsd(lapack_int(m), lapack_int(n), lapack_int(k), columns.as<T>(), y,
                                       static_cast<T>(call.number));
          for (std::int64_t r = 0; r < n; ++r) {
            for (std::int64_t c = 0; c < k; ++c) x[i * n * k + r * k + c] = y[c * most + r];
          }
          return info;
        },
        not_solved);
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(linalg_solve) {
  table.add<LinalgKernel>("cholesky", DeviceKind::cpu, cholesky_kernel);
  table.add<LinalgKernel>("solve", DeviceKind::cpu, solve_kernel);
  table.add<LinalgKernel>("solve_triangular", DeviceKind::cpu, solve_triangular_kernel);
  table.add<LinalgKernel>("inv", DeviceKind::cpu, inv_kernel);
  table.add<LinalgKernel>("lstsq", DeviceKind::cpu, lstsq_kernel);
}

}  // namespace heddle::cpu_kernels
