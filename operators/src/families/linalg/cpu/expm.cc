// Kernel of the exponential of a matrix.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "cpu/gemm.h"
#include "cpu/scratch.h"
#include "families/linalg/cpu/lapack.h"
#include "families/linalg/cpu/matrices.h"

namespace heddle::cpu_kernels {

namespace {

// sinh(x) / x.
double sinch(double x) { return x == 0 ? 1 : std::sinh(x) / x; }

// (e^b - e^a) / (b - a).
double slope_of_exp(double a, double b) {
  if (std::abs(b - a) > 2) return (std::exp(b) - std::exp(a)) / (b - a);
  return std::exp((a + b) / 2) * sinch((b - a) / 2);
}

// The exponential of x (n, n), row-major: Pade's approximation of degree 13 of x / 2^s, squared s times. s
// follows from norms of powers of x, since the norm of x itself would make s too large where large elements
// hardly contribute to the powers (Al-Mohy and Higham 2009).
class Exponential {
 public:
  explicit Exponential(std::int64_t n)
      : n_(n),
        memory_(static_cast<std::size_t>(8 * n * n) * sizeof(double)),
        pivots_(static_cast<std::size_t>(n)) {}

  double* input() { return block(0); }
  double* result() { return block(7); }

  void compute() {
    const double size = norm(input());
    if (!std::isfinite(size)) {
      std::fill_n(result(), n_ * n_, std::numeric_limits<double>::quiet_NaN());
      return;
    }
    const bool upper = is_triangular(false), triangular = upper || is_triangular(true);
    if (upper) turn(input());  // LAPACK sees the transpose, an upper triangle, and so exchanges no rows
    if (triangular) keep_diagonals();
    int squarings = scale(size);
    approximate();
    if (triangular) set_diagonals(squarings);
    while (squarings-- > 0) {
      multiply(result(), result(), block(0));
      std::copy_n(block(0), n_ * n_, result());
      if (triangular) set_diagonals(squarings);
    }
    if (upper) turn(result());
  }

 private:
  double* block(std::int64_t i) { return memory_.as<double>() + i * n_ * n_; }
  void multiply(const double* a, const double* b, double* c) {
    gemm(n_, n_, n_, GemmOperand<double>{a, n_, false}, GemmOperand<double>{b, n_, false}, c, n_, false);
  }
  void turn(double* x) {
    for (std::int64_t r = 0; r < n_; ++r) {
      for (std::int64_t c = 0; c < r; ++c) std::swap(x[r * n_ + c], x[c * n_ + r]);
    }
  }
  bool is_triangular(bool lower) {
    for (std::int64_t r = 0; r < n_; ++r) {
      for (std::int64_t c = 0; c < r; ++c)
        if (input()[lower ? c * n_ + r : r * n_ + c] != 0) return false;
    }
    return true;
  }

  // The largest sum of absolute values in a row; NaN if an element is NaN.
  double norm(const double* x) const {
    double largest = 0;
    for (std::int64_t r = 0; r < n_; ++r) {
      double sum = 0;
      for (std::int64_t c = 0; c < n_; ++c) sum += std::abs(x[r * n_ + c]);
      largest = sum > largest || std::isnan(sum) ? sum : largest;
    }
    return largest;
  }

  // For a triangular matrix, the diagonal of the exponential and the one next to it have closed forms;
  // squaring would lose their digits.
  void keep_diagonals() {
    for (std::int64_t i = 0; i < n_; ++i) {
      diagonal_.push_back(input()[i * (n_ + 1)]);
      if (i > 0) beside_.push_back(input()[i * (n_ + 1) - 1]);
    }
  }
  void set_diagonals(int power) {
    for (std::int64_t i = 0; i < n_; ++i) {
      const double here = std::ldexp(diagonal_[static_cast<std::size_t>(i)], -power);
      result()[i * (n_ + 1)] = std::exp(here);
      std::fill_n(result() + i * (n_ + 1) + 1, n_ - i - 1, 0.0);
      if (i == 0) continue;
      const auto before = static_cast<std::size_t>(i - 1);
      const double factor = std::ldexp(beside_[before], -power);
      result()[i * (n_ + 1) - 1] =
          factor == 0 ? 0 : factor * slope_of_exp(std::ldexp(diagonal_[before], -power), here);
    }
  }

  // Writes x^2, x^4 and x^6 to blocks 1 to 3, where approximate() reads them.
  void make_powers() {
    multiply(block(0), block(0), block(1));
    multiply(block(1), block(1), block(2));
    multiply(block(2), block(1), block(3));
  }
  void divide(int power) {
    for (std::int64_t i = 0; i < n_ * n_; ++i) input()[i] = std::ldexp(input()[i], -power);
  }

  // Divides the input, of norm `size`, by 2^s, makes the powers of the quotient and returns s.
  int scale(double size) {
    constexpr double kReach = 4.25;
    if (size <= kReach) return make_powers(), 0;
    const int shift = size > 0x1p50 ? std::ilogb(size) : 0;  // keeps the tenth power from overflowing
    divide(shift);
    make_powers();
    const auto growth = [&](const double* power, int of) { return std::pow(norm(power), 1.0 / of); };
    multiply(block(2), block(2), block(4));
    multiply(block(2), block(3), block(5));
    const double six = growth(block(3), 6), eight = growth(block(4), 8), ten = growth(block(5), 10);
    const double least = std::min(std::max(six, eight), std::max(eight, ten)) / kReach;
    int squarings = std::max(0, least > 0 ? shift + static_cast<int>(std::ceil(std::log2(least))) : 0);
    divide(squarings - shift);
    const int more = squarings_for_rounding();
    divide(more);
    make_powers();
    return squarings + more;
  }

  // More squarings for rounding errors, which the powers' norms miss where terms cancel: from the first term
  // of the error with absolute values, the 27th power of |x| (Al-Mohy and Higham, equation 5.1). Its exponent
  // is kept separately, so that it does not overflow.
  int squarings_for_rounding() {
    constexpr double kTerm = 113250775606021113483283660800000000.0;
    std::vector<double> sums(static_cast<std::size_t>(n_), 1), next(sums);
    double exponent = 0;
    for (int i = 0; i < 27; ++i) {
      double largest = 0;
      for (std::int64_t r = 0; r < n_; ++r) {
        double sum = 0;
        for (std::int64_t c = 0; c < n_; ++c)
          sum += std::abs(input()[r * n_ + c]) * sums[static_cast<std::size_t>(c)];
        next[static_cast<std::size_t>(r)] = sum;
        largest = std::max(largest, sum);
      }
      if (largest == 0) return 0;
      exponent += std::log2(largest);
      std::transform(next.begin(), next.end(), sums.begin(), [=](double sum) { return sum / largest; });
    }
    const double error = exponent - std::log2(norm(input())) - std::log2(kTerm) + 53;
    return std::max(0, static_cast<int>(std::ceil(error / 26)));
  }

  void approximate() {
    // All coefficients are divided by one power of 2, so that the largest is at most 1.
    static constexpr std::array<double, 14> kTerms = {64764752532480000 * 0x1p-56,
                                                      32382376266240000 * 0x1p-56,
                                                      7771770303897600 * 0x1p-56,
                                                      1187353796428800 * 0x1p-56,
                                                      129060195264000 * 0x1p-56,
                                                      10559470521600 * 0x1p-56,
                                                      670442572800 * 0x1p-56,
                                                      33522128640 * 0x1p-56,
                                                      1323241920 * 0x1p-56,
                                                      40840800 * 0x1p-56,
                                                      960960 * 0x1p-56,
                                                      16380 * 0x1p-56,
                                                      182 * 0x1p-56,
                                                      1 * 0x1p-56};
    const double* x = block(0);
    // `even` gets the terms of the polynomial with even powers of x, x times `odd` those with odd powers.
    double *even = block(4), *odd = block(5), *some = block(6);
    polynomial(kTerms, 1, some, odd);
    multiply(x, odd, some);
    std::swap(odd, some);
    polynomial(kTerms, 0, some, even);
    // LAPACK sees the transposes, which commute. It solves for the transpose of the result.
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
  std::vector<double> diagonal_, beside_;  // diagonals of a triangular input
};

// out = the exponential, computed in f64.
void expm_kernel(const KernelContext&, const LinalgCall& call) {
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
        linalg_errors::no_error);
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(expm) { table.add<LinalgKernel>("expm", DeviceKind::cpu, expm_kernel); }

}  // namespace heddle::cpu_kernels
