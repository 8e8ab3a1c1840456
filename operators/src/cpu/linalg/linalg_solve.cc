// Kernels of linear algebra that factor a matrix to solve equations. A row-major matrix is its transpose to LAPACK.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "cpu/floating.h"
#include "cpu/linalg/gemm.h"
#include "cpu/linalg/lapack.h"
#include "cpu/linalg/matrices.h"
#include "cpu/register.h"
#include "cpu/scratch.h"

namespace heddle::cpu_kernels {

namespace {

constexpr int kNotFinite = -1;

std::size_t bytes(std::int64_t count, std::size_t each) { return static_cast<std::size_t>(count) * each; }

std::string singular(int info) {
  const std::string i = std::to_string(info - 1);
  return "is singular: element (" + i + ", " + i + ") of its triangular factor is 0";
}

std::string not_solved(int info) {
  return info == kNotFinite ? "has an element that is not finite"
                            : "has singular values that did not converge";
}

// out = L, of in.
void cholesky_kernel(const LinalgCall& call) {
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
        [](int info) {
          return "is not positive definite: its first " + std::to_string(info) + " rows and columns are not";
        });
  });
}

// out = the x with in[0] x = in[1].
void solve_kernel(const LinalgCall& call) {
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

// out = the x with in[0] x = in[1], for the upper triangle of in[0] if `flag`, else the lower one.
void solve_triangular_kernel(const LinalgCall& call) {
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

// x = the inverse of x, which has an infinite element: LAPACK's inversion takes zeros of triangles for granted.
template <class T> int invert_by_solving(T* x, std::int64_t n, std::vector<int>& pivots) {
  const Scratch lu(bytes(n * n, sizeof(T)));
  std::copy_n(x, n * n, lu.as<T>());
  if (const int info = getrf(lapack_int(n), lapack_int(n), lu.as<T>(), pivots.data())) return info;
  std::fill_n(x, n * n, T(0));
  for (std::int64_t i = 0; i < n; ++i) x[i * n + i] = 1;
  return getrs(false, lapack_int(n), lapack_int(n), lu.as<T>(), pivots.data(), x);
}

// x = the inverse of x.
template <class T> int invert(T* x, std::int64_t n) {
  const std::int64_t count = n * n;
  if (std::any_of(x, x + count, [](T value) { return std::isnan(value); })) return fill_nan(x, count), 0;
  std::vector<int> pivots(static_cast<std::size_t>(n));
  if (std::any_of(x, x + count, [](T value) { return std::isinf(value); }))
    return invert_by_solving(x, n, pivots);
  if (const int info = getrf(lapack_int(n), lapack_int(n), x, pivots.data())) return info;
  return getri(lapack_int(n), x, pivots.data());
}

// out = the inverse; of a singular matrix NaN, if `flag`, else an error.
void inv_kernel(const LinalgCall& call) {
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

// The diagonal of x's triangular factor, in x's first n elements, and the sign of its row exchanges.
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
  T product = diagonal_of_lu(x, n);
  for (std::int64_t i = 0; i < n; ++i) product *= x[i];
  return product;
}

constexpr auto kNoError = [](int) { return std::string(); };

// out[0] = the determinant; or, with `flag`, its sign, and out[1] = the logarithm of its size.
void det_kernel(const LinalgCall& call) {
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
        kNoError);
  });
}

// The derivative of the determinant, from singular values: it exists where the inverse does not.
template <class T> int det_gradient(T* x, std::int64_t n, T* y) {
  if (!all_finite(x, n * n)) {
    std::fill_n(y, n * n, std::numeric_limits<T>::quiet_NaN());
    return 0;
  }
  const Scratch memory(bytes(4 * n * n + 2 * n, sizeof(T)));
  T *u = memory.as<T>(), *vt = u + n * n, *copy = vt + n * n, *s = copy + n * n, *others = s + n;
  // To LAPACK x is x^T: its U is our V, row-major V^T, and so is the other.
  if (const int info = gesdd('S', lapack_int(n), lapack_int(n), x, s, vt, u)) return info;
  std::copy_n(u, n * n, copy);
  T sign = determinant(copy, n);
  std::copy_n(vt, n * n, copy);
  sign *= determinant(copy, n);
  T before = sign < 0 ? T(-1) : T(1);
  for (std::int64_t i = 0; i < n; ++i) {
    others[i] = before;
    before *= s[i];
  }
  T after = 1;
  for (std::int64_t i = n - 1; i >= 0; --i) {
    others[i] *= after;
    after *= s[i];
  }
  for (std::int64_t r = 0; r < n; ++r) {
    for (std::int64_t c = 0; c < n; ++c) u[r * n + c] *= others[c];
  }
  gemm(n, n, n, GemmOperand<T>{u, n, false}, GemmOperand<T>{vt, n, false}, y, n, false);
  return 0;
}

void det_gradient_kernel(const LinalgCall& call) {
  const std::int64_t n = Matrices(call.in[0]).rows;
  visit_floating(call.in[0].dtype(), [&]<class T>() {
    const T* from = call.in[0].data<const T>();
    T* to = call.out[0].data<T>();
    for_each_matrix(
        call, 20 * cube(n),
        [&](std::int64_t i) {
          const Scratch x(bytes(n * n, sizeof(T)));
          std::copy_n(from + i * n * n, n * n, x.as<T>());
          return n == 0 ? 0 : det_gradient(x.as<T>(), n, to + i * n * n);
        },
        not_solved);
  });
}

// out = the least-squares solution for in[0] and in[1]; singular values up to `number` times the largest count as 0.
void lstsq_kernel(const LinalgCall& call) {
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

// The exponential of x (n, n), row-major: Pade's approximation of degree 13 of x / 2^s, squared s times (Higham 2005).
class Exponential {
 public:
  explicit Exponential(std::int64_t n)
      : n_(n), memory_(bytes(8 * n * n, sizeof(double))), pivots_(static_cast<std::size_t>(n)) {}

  double* input() { return block(0); }
  void compute() {
    double largest = 0;
    for (std::int64_t r = 0; r < n_; ++r) {
      double sum = 0;
      for (std::int64_t c = 0; c < n_; ++c) sum += std::abs(input()[r * n_ + c]);
      largest = sum > largest || std::isnan(sum) ? sum : largest;
    }
    if (!std::isfinite(largest)) {
      std::fill_n(result(), n_ * n_, std::numeric_limits<double>::quiet_NaN());
      return;
    }
    constexpr double kReach = 5.371920351148152;
    const int squarings = largest > kReach ? static_cast<int>(std::ceil(std::log2(largest / kReach))) : 0;
    for (std::int64_t i = 0; i < n_ * n_; ++i) input()[i] = std::ldexp(input()[i], -squarings);
    approximate();
    for (int i = 0; i < squarings; ++i) {
      multiply(result(), result(), block(0));
      std::copy_n(block(0), n_ * n_, result());
    }
  }
  double* result() { return block(7); }

 private:
  double* block(std::int64_t i) { return memory_.as<double>() + i * n_ * n_; }
  void multiply(const double* a, const double* b, double* c) {
    gemm(n_, n_, n_, GemmOperand<double>{a, n_, false}, GemmOperand<double>{b, n_, false}, c, n_, false);
  }
  void approximate() {
    static constexpr std::array<double, 14> kTerms = {64764752532480000,
                                                      32382376266240000,
                                                      7771770303897600,
                                                      1187353796428800,
                                                      129060195264000,
                                                      10559470521600,
                                                      670442572800,
                                                      33522128640,
                                                      1323241920,
                                                      40840800,
                                                      960960,
                                                      16380,
                                                      182,
                                                      1};
    double *x = block(0), *x2 = block(1), *x4 = block(2), *x6 = block(3);
    multiply(x, x, x2);
    multiply(x2, x2, x4);
    multiply(x4, x2, x6);
    // The even powers in `even`, the odd ones in x times `odd`.
    double *even = block(4), *odd = block(5), *some = block(6);
    polynomial(kTerms, 1, some, odd);
    multiply(x, odd, some);
    std::swap(odd, some);
    polynomial(kTerms, 0, some, even);
    // To LAPACK they are their transposes, which commute: what it solves for is the transpose of the result.
    for (std::int64_t i = 0; i < n_ * n_; ++i) {
      result()[i] = even[i] + odd[i];
      even[i] -= odd[i];
    }
    const int n = lapack_int(n_);
    getrf(n, n, even, pivots_.data());
    getrs(false, n, n, even, pivots_.data(), result());
  }
  // to = x6 (t[12+o] x6 + t[10+o] x4 + t[8+o] x2) + t[6+o] x6 + t[4+o] x4 + t[2+o] x2 + t[o] for o = `odd`.
  void polynomial(const std::array<double, 14>& t, std::size_t odd, double* some, double* to) {
    const double *x2 = block(1), *x4 = block(2), *x6 = block(3);
    for (std::int64_t i = 0; i < n_ * n_; ++i)
      some[i] = t[12 + odd] * x6[i] + t[10 + odd] * x4[i] + t[8 + odd] * x2[i];
    multiply(x6, some, to);
    for (std::int64_t i = 0; i < n_ * n_; ++i)
      to[i] += t[6 + odd] * x6[i] + t[4 + odd] * x4[i] + t[2 + odd] * x2[i];
    for (std::int64_t i = 0; i < n_; ++i) to[i * (n_ + 1)] += t[odd];
  }

  std::int64_t n_;
  Scratch memory_;
  std::vector<int> pivots_;
};

// out = the exponential, computed in f64.
void expm_kernel(const LinalgCall& call) {
  const std::int64_t n = Matrices(call.in[0]).rows;
  visit_floating(call.in[0].dtype(), [&]<class T>() {
    const T* from = call.in[0].data<const T>();
    T* to = call.out[0].data<T>();
    for_each_matrix(
        call, 20 * cube(n),
        [&](std::int64_t i) {
          Exponential exponential(n);
          std::copy_n(from + i * n * n, n * n, exponential.input());
          exponential.compute();
          std::transform(exponential.result(), exponential.result() + n * n, to + i * n * n,
                         [](double value) { return static_cast<T>(value); });
          return 0;
        },
        kNoError);
  });
}

}  // namespace

void register_linalg_solve(KernelTable& table) {
  table.add<LinalgKernel>("cholesky", DeviceKind::cpu, cholesky_kernel);
  table.add<LinalgKernel>("solve", DeviceKind::cpu, solve_kernel);
  table.add<LinalgKernel>("solve_triangular", DeviceKind::cpu, solve_triangular_kernel);
  table.add<LinalgKernel>("inv", DeviceKind::cpu, inv_kernel);
  table.add<LinalgKernel>("det", DeviceKind::cpu, det_kernel);
  table.add<LinalgKernel>("det_gradient", DeviceKind::cpu, det_gradient_kernel);
  table.add<LinalgKernel>("lstsq", DeviceKind::cpu, lstsq_kernel);
  table.add<LinalgKernel>("expm", DeviceKind::cpu, expm_kernel);
}

}  // namespace heddle::cpu_kernels
