// Kernels that factor a matrix. LAPACK sees a row-major matrix as its transpose.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "cpu/scratch.h"
#include "families/linalg/cpu/lapack.h"
#include "families/linalg/cpu/matrices.h"

namespace heddle::cpu_kernels {

namespace {

using linalg_errors::kNotFinite;
using linalg_errors::not_found;

std::size_t bytes(std::int64_t count, std::size_t each) { return static_cast<std::size_t>(count) * each; }

// P (m, m), L (m, k) and U (k, n), row-major, from getrf's column-major results.
template <class T>
void unpack_lu(const T* a, const std::vector<int>& pivots, std::int64_t m, std::int64_t n, T* p, T* l, T* u) {
  const std::int64_t k = std::min(m, n);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(m));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  for (std::int64_t i = 0; i < k; ++i)
    std::swap(rows[static_cast<std::size_t>(i)],
              rows[static_cast<std::size_t>(pivots[static_cast<std::size_t>(i)] - 1)]);
  std::fill_n(p, m * m, T(0));
  for (std::int64_t i = 0; i < m; ++i) p[rows[static_cast<std::size_t>(i)] * m + i] = 1;
  for (std::int64_t r = 0; r < m; ++r) {
    for (std::int64_t c = 0; c < k; ++c) l[r * k + c] = r > c ? a[c * m + r] : static_cast<T>(r == c);
  }
  for (std::int64_t r = 0; r < k; ++r) {
    for (std::int64_t c = 0; c < n; ++c) u[r * n + c] = r <= c ? a[c * m + r] : T(0);
  }
}

// out = P, L, U.
void lu_kernel(const KernelContext&, const LinalgCall& call) {
  const Matrices x(call.in[0]);
  const std::int64_t m = x.rows, n = x.columns, k = std::min(m, n);
  visit_floating(call.in[0].dtype(), [&]<class T>() {
    const T* from = call.in[0].data<const T>();
    T *p = call.out[0].data<T>(), *l = call.out[1].data<T>(), *u = call.out[2].data<T>();
    for_each_matrix(
        call, cube(k),
        [&](std::int64_t i) {
          const Scratch columns(bytes(m * n, sizeof(T)));
          std::vector<int> pivots(static_cast<std::size_t>(k));
          transpose_matrix(from + i * m * n, m, n, columns.as<T>());
          getrf(lapack_int(m), lapack_int(n), columns.as<T>(), pivots.data());  // a 0 in U is no error
          unpack_lu(columns.as<T>(), pivots, m, n, p + i * m * m, l + i * m * k, u + i * k * n);
          return 0;
        },
        not_found);
  });
}

// out = Q, R: Q has as many columns as R has rows.
void qr_kernel(const KernelContext&, const LinalgCall& call) {
  const Matrices x(call.in[0]);
  const std::int64_t m = x.rows, n = x.columns, k = std::min(m, n), q = Matrices(call.out[0]).columns;
  visit_floating(call.in[0].dtype(), [&]<class T>() {
    const T* from = call.in[0].data<const T>();
    T *orthogonal = call.out[0].data<T>(), *triangular = call.out[1].data<T>();
    for_each_matrix(
        call, 2 * cube(std::max(k, q)),
        [&](std::int64_t i) {
          const Scratch columns(bytes(m * std::max(n, q), sizeof(T))),
              tau(bytes(std::max<std::int64_t>(k, 1), sizeof(T)));
          T *a = columns.as<T>(), *r = triangular + i * q * n;
          transpose_matrix(from + i * m * n, m, n, a);
          geqrf(lapack_int(m), lapack_int(n), a, tau.as<T>());
          for (std::int64_t row = 0; row < q; ++row) {
            for (std::int64_t c = 0; c < n; ++c) r[row * n + c] = row <= c ? a[c * m + row] : T(0);
          }
          orgqr(lapack_int(m), lapack_int(q), lapack_int(k), a, tau.as<T>());
          transpose_matrix(a, q, m, orthogonal + i * m * q);
          return 0;
        },
        not_found);
  });
}

// out = U, S, V^T, with all columns of U and rows of V^T if `flag`; or S alone.
void svd_kernel(const KernelContext&, const LinalgCall& call) {
  const Matrices x(call.in[0]);
  const std::int64_t m = x.rows, n = x.columns, k = std::min(m, n);
  const bool alone = call.out.size() == 1;
  const std::int64_t us = call.flag ? m : k, vs = call.flag ? n : k;
  visit_floating(call.in[0].dtype(), [&]<class T>() {
    const T* from = call.in[0].data<const T>();
    T *u = alone ? nullptr : call.out[0].data<T>(), *v = alone ? nullptr : call.out[2].data<T>();
    T* s = call.out[alone ? 0 : 1].data<T>();
    for_each_matrix(
        call, 20 * cube(std::max(m, n)),
        [&](std::int64_t i) {
          if (!all_finite(from + i * m * n, m * n)) return kNotFinite;
          T *ui = alone ? nullptr : u + i * m * us, *vi = alone ? nullptr : v + i * vs * n;
          if (k == 0) {
            if (!alone && call.flag) {
              set_identity(ui, m);
              set_identity(vi, n);
            }
            return 0;
          }
          const Scratch copy(bytes(m * n, sizeof(T)));
          std::copy_n(from + i * m * n, m * n, copy.as<T>());
          T nothing = 0;
          return gesdd(alone       ? 'N'
                       : call.flag ? 'A'
                                   : 'S',
                       lapack_int(n), lapack_int(m), copy.as<T>(), s + i * k, alone ? &nothing : vi,
                       alone ? &nothing : ui);
        },
        not_found);
  });
}

// out = the eigenvalues, and the eigenvectors if out has two arrays. Reads the upper triangle if `flag`.
void eigh_kernel(const KernelContext&, const LinalgCall& call) {
  const std::int64_t n = Matrices(call.in[0]).rows;
  const bool vectors = call.out.size() == 2;
  visit_floating(call.in[0].dtype(), [&]<class T>() {
    const T* from = call.in[0].data<const T>();
    T *w = call.out[0].data<T>(), *v = vectors ? call.out[1].data<T>() : nullptr;
    for_each_matrix(
        call, 10 * cube(n),
        [&](std::int64_t i) {
          const Scratch copy(bytes(n * n, sizeof(T)));
          std::copy_n(from + i * n * n, n * n, copy.as<T>());
          for (std::int64_t r = 0; r < n; ++r) {
            const T* row = copy.as<T>() + r * n;
            if (!(call.flag ? all_finite(row + r, n - r) : all_finite(row, r + 1))) return kNotFinite;
          }
          const int info = syevd(vectors, !call.flag, lapack_int(n), copy.as<T>(), w + i * n);
          if (vectors) transpose_matrix(copy.as<T>(), n, n, v + i * n * n);
          return info;
        },
        not_found);
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(linalg_factors) {
  table.add<LinalgKernel>("lu", DeviceKind::cpu, lu_kernel);
  table.add<LinalgKernel>("qr", DeviceKind::cpu, qr_kernel);
  table.add<LinalgKernel>("svd", DeviceKind::cpu, svd_kernel);
  table.add<LinalgKernel>("eigh", DeviceKind::cpu, eigh_kernel);
}

}  // namespace heddle::cpu_kernels
