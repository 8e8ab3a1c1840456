// Kernels of determinants and their first two derivatives.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/kernel_table.h"
#include "core/scaled.h"
#include "cpu/floating.h"
#include "cpu/gemm.h"
#include "cpu/scratch.h"
#include "families/linalg/cpu/lapack.h"
#include "families/linalg/cpu/matrices.h"

namespace heddle::cpu_kernels {

using functors::Scaled;

namespace {

std::size_t bytes(std::int64_t count, std::size_t each) { return static_cast<std::size_t>(count) * each; }

// Writes the diagonal of x's U factor to x's first n elements; returns the sign of the row exchanges.
template <class T> T diagonal_of_lu(T* x, std::int64_t n) {
  std::vector<int> pivots(static_cast<std::size_t>(n));
  getrf(lapack_int(n), lapack_int(n), x, pivots.data());
  T sign = 1;
  for (std::int64_t i = 0; i < n; ++i) {
    if (pivots[static_cast<std::size_t>(i)] != i + 1) sign = -sign;
    x[i] = x[i * (n + 1)];
  }
  return sign;
}

template <class T> T determinant(T* x, std::int64_t n) {
  Scaled product{static_cast<double>(diagonal_of_lu(x, n)), 0};
  for (std::int64_t i = 0; i < n; ++i) product.multiply(static_cast<double>(x[i]));
  return static_cast<T>(product.number());
}

// out[0] = the determinant; with `flag` out[0] = its sign and out[1] = the logarithm of its absolute value.
void det_kernel(const KernelContext&, const LinalgCall& call) {
  const std::int64_t n = Matrices(call.in[0]).rows;
  visit_floating(call.in[0].dtype(), [&]<class T>() {
    const T* from = call.in[0].data<const T>();
    T *first = call.out[0].data<T>(), *logarithms = call.flag ? call.out[1].data<T>() : nullptr;
    for_each_matrix(
        call, cube(n),
        [&](std::int64_t i) {
          const Scratch factors(bytes(n * n, sizeof(T)));
          T* x = factors.as<T>();
          std::copy_n(from + i * n * n, n * n, x);
          if (!call.flag) {
            first[i] = determinant(x, n);
            return 0;
          }
          T sign = diagonal_of_lu(x, n), sum = 0;
          for (std::int64_t j = 0; j < n; ++j) {
            sign *= x[j] > 0 ? T(1) : x[j] < 0 ? T(-1) : x[j];
            sum += std::log(std::abs(x[j]));
          }
          first[i] = sign;
          logarithms[i] = sum;
          return 0;
        },
        linalg_errors::no_error);
  });
}

// x = U diag(s) V^T, and the determinant of U V. With singular values, derivatives exist where x has no
// inverse.
template <class T> struct SingularValues {
  explicit SingularValues(std::int64_t n)
      : memory(bytes(4 * n * n + n, sizeof(T))),
        u(memory.as<T>()),
        vt(u + n * n),
        free(vt + n * n),
        also_free(free + n * n),
        s(also_free + n * n) {}

  // Returns gesdd's info. LAPACK sees the row-major x as x^T. Its U, row-major, is our V^T, and its V^T our
  // U.
  int compute(const T* x, std::int64_t n) {
    std::copy_n(x, n * n, free);
    if (const int info = gesdd('S', lapack_int(n), lapack_int(n), free, s, vt, u)) return info;
    std::copy_n(u, n * n, free);
    sign = determinant(free, n);
    std::copy_n(vt, n * n, free);
    sign = sign * determinant(free, n) < 0 ? T(-1) : T(1);
    return 0;
  }

  Scratch memory;
  T *u, *vt, *free, *also_free, *s;  // all but s are (n, n); free and also_free are scratch memory
  T sign = 1;
};

// products[i] = `factor` times the product of all s[j] but s[i].
template <class T> void products_of_others(const std::vector<T>& s, T factor, T* products) {
  std::vector<Scaled> before(s.size());
  Scaled product{static_cast<double>(factor), 0};
  for (std::size_t i = 0; i < s.size(); ++i) {
    before[i] = product;
    product.multiply(static_cast<double>(s[i]));
  }
  product = {1, 0};
  for (std::size_t i = s.size(); i-- > 0;) {
    products[i] = static_cast<T>(before[i].times(product));
    product.multiply(static_cast<double>(s[i]));
  }
}

template <class T> void fill_nan(T* y, std::int64_t count) {
  std::fill_n(y, count, std::numeric_limits<T>::quiet_NaN());
}

// y = the derivative of the determinant: U diag(p) V^T, where p_i is the product of all singular values but
// the i-th.
template <class T> int det_gradient(const T* x, std::int64_t n, T* y) {
  if (!all_finite(x, n * n)) return fill_nan(y, n * n), 0;
  SingularValues<T> of(n);
  if (const int info = of.compute(x, n)) return info;
  products_of_others(std::vector<T>(of.s, of.s + n), of.sign, of.free);
  for (std::int64_t r = 0; r < n; ++r) {
    for (std::int64_t c = 0; c < n; ++c) of.u[r * n + c] *= of.free[c];
  }
  gemm(n, n, n, GemmOperand<T>{of.u, n, false}, GemmOperand<T>{of.vt, n, false}, y, n, false);
  return 0;
}

// y = the derivative of sum(h * the derivative of the determinant). In the basis of the singular vectors,
// with H = U^T h V: element (j, j) is the sum over i of p_ij H_ii, element (j, i) is -p_ij H_ij, where p_ij
// is the product of all singular values but the i-th and j-th.
template <class T> int det_second_gradient(const T* x, const T* h, std::int64_t n, T* y) {
  if (!all_finite(x, n * n)) return fill_nan(y, n * n), 0;
  SingularValues<T> of(n);
  if (const int info = of.compute(x, n)) return info;
  const GemmOperand<T> u{of.u, n, false}, ut{of.u, n, true}, vt{of.vt, n, false}, v{of.vt, n, true};
  gemm(n, n, n, GemmOperand<T>{h, n, false}, v, of.free, n, false);
  gemm(n, n, n, ut, GemmOperand<T>{of.free, n, false}, of.also_free, n, false);
  const T* between = of.also_free;
  T* made = of.free;
  std::fill_n(made, n * n, T(0));
  std::vector<T> others(of.s, of.s + n), products(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    others[static_cast<std::size_t>(i)] = 1;
    products_of_others(others, of.sign, products.data());
    others[static_cast<std::size_t>(i)] = of.s[i];
    for (std::int64_t j = 0; j < n; ++j) {
      if (i == j) continue;
      made[j * n + j] += products[static_cast<std::size_t>(j)] * between[i * n + i];
      made[j * n + i] = -products[static_cast<std::size_t>(j)] * between[i * n + j];
    }
  }
  gemm(n, n, n, GemmOperand<T>{made, n, false}, vt, of.also_free, n, false);
  gemm(n, n, n, u, GemmOperand<T>{of.also_free, n, false}, y, n, false);
  return 0;
}

// out = the derivative of the determinant.
void det_gradient_kernel(const KernelContext&, const LinalgCall& call) {
  const std::int64_t n = Matrices(call.in[0]).rows;
  visit_floating(call.in[0].dtype(), [&]<class T>() {
    const T* x = call.in[0].data<const T>();
    T* y = call.out[0].data<T>();
    for_each_matrix(
        call, 20 * cube(n),
        [&](std::int64_t i) { return n == 0 ? 0 : det_gradient(x + i * n * n, n, y + i * n * n); },
        linalg_errors::no_singular_values);
  });
}

// out = the second derivative of the determinant at in[0] in the direction in[1].
void det_second_gradient_kernel(const KernelContext&, const LinalgCall& call) {
  const std::int64_t n = Matrices(call.in[0]).rows;
  visit_floating(call.in[0].dtype(), [&]<class T>() {
    const T *x = call.in[0].data<const T>(), *h = call.in[1].data<const T>();
    T* y = call.out[0].data<T>();
    for_each_matrix(
        call, 25 * cube(n),
        [&](std::int64_t i) {
          return n == 0 ? 0 : det_second_gradient(x + i * n * n, h + i * n * n, n, y + i * n * n);
        },
        linalg_errors::no_singular_values);
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(det) {
  table.add<LinalgKernel>("det", DeviceKind::cpu, det_kernel);
  table.add<LinalgKernel>("det_gradient", DeviceKind::cpu, det_gradient_kernel);
  table.add<LinalgKernel>("det_second_gradient", DeviceKind::cpu, det_second_gradient_kernel);
}

}  // namespace heddle::cpu_kernels
