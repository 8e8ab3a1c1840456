#include <cmath>
#include <limits>

#include "cuda/team.h"
#include "families/linalg/cuda/expm.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels::linalg {
namespace {

constexpr double kReach = 4.25;
constexpr int kSide = 16;  // of a tile

template <class K> const char* blocks(void* stream, long long count, const K& kernel) {
  return launch_grid(stream, dim3(static_cast<unsigned>(count)), kernel);
}

HEDDLE_DEVICE inline bool is_finite(double x) { return x - x == 0; }

struct LargestOrNan {
  HEDDLE_DEVICE double operator()(double a, double b) const { return a != a || a > b ? a : b; }
};

// The largest of the threads' numbers; NaN if one is NaN.
HEDDLE_DEVICE inline double largest_of(on_gpu::Thread& thread, double own) {
  Team team(thread, {1, true});
  return team.all(own, LargestOrNan{});
}

// The largest sum of absolute values in a row.
template <class T> HEDDLE_DEVICE double norm(on_gpu::Thread& thread, const T* x, long long n) {
  double largest = 0;
  for (long long r = thread.rank(); r < n; r += thread.size()) {
    double sum = 0;
    for (long long c = 0; c < n; ++c) sum += std::fabs(static_cast<double>(x[r * n + c]));
    largest = LargestOrNan{}(sum, largest);
  }
  return largest_of(thread, largest);
}

template <class T> struct Begin {
  Expm of;
  double* input;
  const T* from;

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long q = thread.block_index().x, n = of.n, each = n * n;
    const T* const x = from + q * each;
    ExpmState state{};
    state.size = norm(thread, x, n);
    state.finite = is_finite(state.size);
    int below = 0, above = 0;
    for (long long e = thread.rank(); e < each; e += thread.size()) {
      if (x[e] == 0) continue;
      below |= e / n > e % n;
      above |= e / n < e % n;
    }
    state.upper = thread.barrier_or(below) == 0;
    state.triangular = state.upper || thread.barrier_or(above) == 0;
    if (state.finite && state.size > 0x1p50) {
      int exponent = 0;
      std::frexp(state.size, &exponent);
      state.shift = exponent - 1;  // keeps the tenth power from overflowing
    }
    for (long long e = thread.rank(); e < each; e += thread.size()) {
      const long long r = e / n, c = e % n;
      const double value = state.finite ? static_cast<double>(state.upper ? x[c * n + r] : x[e]) : 0;
      if (r == c) of.diagonal[q * n + r] = value;
      if (r == c + 1) of.beside[q * n + r] = value;
      input[q * each + e] = std::ldexp(value, -state.shift);
    }
    if (thread.rank() == 0) of.states[q] = state;
  }
};

struct ScaleInput {
  Expm of;
  double *input, *first, *second;  // memory for vectors in blocks 6 and 7
  const double *six, *eight, *ten;

  HEDDLE_DEVICE void divide(on_gpu::Thread& thread, double* x, int power) const {
    for (long long e = thread.rank(); e < of.n * of.n; e += thread.size()) x[e] = std::ldexp(x[e], -power);
    thread.barrier();
  }
  // More squarings for rounding errors: see the CPU's kernel.
  HEDDLE_DEVICE int for_rounding(on_gpu::Thread& thread, const double* x, double* sums, double* next) const {
    constexpr double kTerm = 113250775606021113483283660800000000.0;
    const long long n = of.n;
    double exponent = 0;
    for (long long r = thread.rank(); r < n; r += thread.size()) sums[r] = 1;
    thread.barrier();
    for (int i = 0; i < 27; ++i) {
      double largest = 0;
      for (long long r = thread.rank(); r < n; r += thread.size()) {
        double sum = 0;
        for (long long c = 0; c < n; ++c) sum += std::fabs(x[r * n + c]) * sums[c];
        next[r] = sum;
        largest = sum > largest ? sum : largest;
      }
      largest = largest_of(thread, largest);  // has barriers: all have read the sums
      if (largest == 0) return 0;
      exponent += std::log2(largest);
      for (long long r = thread.rank(); r < n; r += thread.size()) sums[r] = next[r] / largest;
      thread.barrier();
    }
    const double error = exponent - std::log2(norm(thread, x, n)) - std::log2(kTerm) + 53;
    return error > 0 ? static_cast<int>(std::ceil(error / 26)) : 0;
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long q = thread.block_index().x, at = q * of.n * of.n;
    const ExpmState state = of.states[q];
    if (!state.finite || state.size <= kReach) return;
    const double a = std::pow(norm(thread, six + at, of.n), 1.0 / 6),
                 b = std::pow(norm(thread, eight + at, of.n), 1.0 / 8),
                 c = std::pow(norm(thread, ten + at, of.n), 1.0 / 10);
    const double first_pair = a > b ? a : b, second_pair = b > c ? b : c;
    const double least = (first_pair < second_pair ? first_pair : second_pair) / kReach;
    int squarings = least > 0 ? state.shift + static_cast<int>(std::ceil(std::log2(least))) : 0;
    if (squarings < 0) squarings = 0;
    divide(thread, input + at, squarings - state.shift);
    const int more = for_rounding(thread, input + at, first + at, second + at);
    divide(thread, input + at, more);
    if (thread.rank() == 0) of.states[q].squarings = squarings + more;
  }
};

// The coefficients of Pade's approximation, divided by one power of 2.
HEDDLE_DEVICE inline double term(int i) {
  constexpr double kTerms[14] = {64764752532480000 * 0x1p-56,
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
  return kTerms[i];
}

struct FirstSums {
  const double *two, *four, *six;
  double *even, *odd;
  long long count;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long e = thread.global_index(); e < count; e += thread.global_size()) {
      even[e] = term(12) * six[e] + term(10) * four[e] + term(8) * two[e];
      odd[e] = term(13) * six[e] + term(11) * four[e] + term(9) * two[e];
    }
  }
};
struct LastSums {
  const double *two, *four, *six;
  double *even, *odd;
  long long count, n;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long e = thread.global_index(); e < count; e += thread.global_size()) {
      const long long in = e % (n * n);
      const bool diagonal = in / n == in % n;
      even[e] += term(6) * six[e] + term(4) * four[e] + term(2) * two[e];
      odd[e] += term(7) * six[e] + term(5) * four[e] + term(3) * two[e];
      if (diagonal) even[e] += term(0);
      if (diagonal) odd[e] += term(1);
    }
  }
};
struct Combine {
  double *even, *result;
  const double* odd;
  long long count;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long e = thread.global_index(); e < count; e += thread.global_size()) {
      result[e] = even[e] + odd[e];
      even[e] -= odd[e];
    }
  }
};

// (e^b - e^a) / (b - a).
HEDDLE_DEVICE inline double slope_of_exp(double a, double b) {
  if (std::fabs(b - a) > 2) return (std::exp(b) - std::exp(a)) / (b - a);
  const double half = (b - a) / 2;
  return std::exp((a + b) / 2) * (half == 0 ? 1 : std::sinh(half) / half);
}

// An element of the exponential of x / 2^power, of which `made` is computed. For a triangular matrix, the diagonal and the one next to
// it have closed forms.
HEDDLE_DEVICE inline double placed(const Expm& of, long long q, const ExpmState& state, int power,
                                   long long r, long long c, double made) {
  if (!state.triangular) return made;
  if (c > r) return 0;
  const double* const diagonal = of.diagonal + q * of.n;
  if (r == c) return std::exp(std::ldexp(diagonal[r], -power));
  if (r > c + 1) return made;
  const double factor = std::ldexp(of.beside[q * of.n + r], -power);
  if (factor == 0) return 0;
  return factor * slope_of_exp(std::ldexp(diagonal[c], -power), std::ldexp(diagonal[r], -power));
}

struct Triangles {
  Expm of;
  double* result;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long n = of.n, each = n * n;
    for (long long e = thread.global_index(); e < each * of.count; e += thread.global_size()) {
      const long long q = e / each;
      const ExpmState state = of.states[q];
      result[e] = placed(of, q, state, state.squarings, e % each / n, e % n, result[e]);
    }
  }
};

HEDDLE_DEVICE inline long long tiles_of(long long n) { return (n + kSide - 1) / kSide; }

// One tile of to = from * from for matrix q, which is then the exponential of x / 2^power.
HEDDLE_DEVICE inline void square_tile(on_gpu::Thread& thread, const Expm& of, long long q, long long tile,
                                      int power, const double* from, double* to) {
  HEDDLE_SHARED(thread, left, double[kSide][kSide + 1]);
  HEDDLE_SHARED(thread, right, double[kSide][kSide + 1]);
  const long long n = of.n, tiles = tiles_of(n);
  const int i = thread.rank() / kSide, j = thread.rank() % kSide;
  const long long r = tile / tiles * kSide + i, c = tile % tiles * kSide + j;
  const double* const x = from + q * n * n;
  double sum = 0;
  for (long long k = 0; k < n; k += kSide) {
    left[i][j] = r < n && k + j < n ? x[r * n + k + j] : 0;
    right[i][j] = k + i < n && c < n ? x[(k + i) * n + c] : 0;
    thread.barrier();
    for (int t = 0; t < kSide; ++t) sum += left[i][t] * right[t][j];
    thread.barrier();
  }
  if (r < n && c < n) to[q * n * n + r * n + c] = placed(of, q, of.states[q], power, r, c, sum);
}

// Step `step` of the matrices that have so many squarings: a block a tile.
struct Square {
  Expm of;
  int step;
  const double* from;
  double* to;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long tiles = tiles_of(of.n), each = tiles * tiles, q = thread.block_index().x / each;
    const int squarings = of.states[q].squarings;
    if (step >= squarings) return;
    square_tile(thread, of, q, thread.block_index().x % each, squarings - step - 1, from, to);
  }
};
struct SquareRest {
  Expm of;
  double *even, *odd;  // where results are before a step of even and of odd number
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long q = thread.block_index().x, tiles = tiles_of(of.n);
    const int squarings = of.states[q].squarings;
    for (int step = kExpmSteps; step < squarings; ++step) {
      for (long long tile = 0; tile < tiles * tiles; ++tile)
        square_tile(thread, of, q, tile, squarings - step - 1, step % 2 ? odd : even, step % 2 ? even : odd);
      thread.barrier();
    }
  }
};

template <class T> struct End {
  Expm of;
  const double *even, *odd;
  T* y;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long n = of.n, each = n * n;
    for (long long e = thread.global_index(); e < each * of.count; e += thread.global_size()) {
      const ExpmState state = of.states[e / each];
      const long long in = e % each, turned = state.upper ? in % n * n + in / n : in;
      const double value = (state.squarings % 2 ? odd : even)[e / each * each + turned];
      y[e] = state.finite ? static_cast<T>(value) : std::numeric_limits<T>::quiet_NaN();
    }
  }
};

template <class K> const char* over(void* stream, const Expm& of, const K& kernel) {
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), of.count * of.n * of.n, kernel);
}

}  // namespace

template <class T> const char* expm_begin(void* stream, const Expm& of, const T* x) {
  return blocks(stream, of.count, Begin<T>{of, of.block(0), x});
}
const char* expm_scale(void* stream, const Expm& of) {
  return blocks(stream, of.count,
                ScaleInput{of, of.block(0), of.block(6), of.block(7), of.block(3), of.block(4), of.block(5)});
}
const char* expm_first_sums(void* stream, const Expm& of) {
  return over(
      stream, of,
      FirstSums{of.block(1), of.block(2), of.block(3), of.block(6), of.block(7), of.count * of.n * of.n});
}
const char* expm_last_sums(void* stream, const Expm& of) {
  return over(stream, of,
              LastSums{of.block(1), of.block(2), of.block(3), of.block(4), of.block(5),
                       of.count * of.n * of.n, of.n});
}
const char* expm_combine(void* stream, const Expm& of) {
  return over(stream, of, Combine{of.block(4), of.block(7), of.block(6), of.count * of.n * of.n});
}
template <class T> const char* expm_end(void* stream, const Expm& of, T* y) {
  double *const even = of.block(7), *const odd = of.block(6);
  const long long tiles = (of.n + kSide - 1) / kSide;
  if (const char* const problem = over(stream, of, Triangles{of, even})) return problem;
  for (int step = 0; step < kExpmSteps; ++step) {
    const Square square{of, step, step % 2 ? odd : even, step % 2 ? even : odd};
    if (const char* const problem = blocks(stream, of.count * tiles * tiles, square)) return problem;
  }
  if (const char* const problem = blocks(stream, of.count, SquareRest{of, even, odd})) return problem;
  return over(stream, of, End<T>{of, even, odd, y});
}

template const char* expm_begin(void*, const Expm&, const float*);
template const char* expm_begin(void*, const Expm&, const double*);
template const char* expm_end(void*, const Expm&, float*);
template const char* expm_end(void*, const Expm&, double*);

}  // namespace heddle::cuda_kernels::linalg
