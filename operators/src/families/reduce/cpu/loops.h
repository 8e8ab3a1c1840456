// ReduceLoops for a type F that defines how elements are joined:
//   F::Partial<T>       the type of partial results of elements of type T
//   F::start<T>()       the partial result of no element
//   F::take<P>(x)       the partial result of one element
//   F::join(a, b)       the partial result of the elements of both
//   F::finish<R>(p, n)  the result of n elements
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "families/reduce/cpu/reduce.h"

namespace heddle::cpu_kernels::reduction {

constexpr std::int64_t kLanes = 64;  // independent partial results, for vector registers

template <class P> using Lanes = std::array<P, kLanes>;

// Rows are joined by halves, recursively, until few rows are left: rounding errors of sums then grow with
// the logarithm of the number of rows (pairwise summation: Higham, SIAM J. Sci. Comput. 1993).

// The number of rows in the first half of more than kRows: a multiple of four, since four rows are joined at
// once.
inline std::int64_t half_of(std::int64_t rows) { return (rows / 2 + 3) / 4 * 4; }

// The loops of F for elements of type T and results of type R.
template <class F, class T, class R> struct Loops {
  using P = typename F::template Partial<T>;
  static_assert(sizeof(P) <= 8);

  static P take(T x) { return F::template take<P>(x); }
  static P join_four(P a, P b, P c, P d) { return F::join(F::join(a, b), F::join(c, d)); }

  // Joins rows of kLanes elements into the lanes.
  static void join_rows(const T* x, std::int64_t rows, Lanes<P>& lanes) {
    const auto at = [x](std::int64_t row, std::int64_t l) { return take(x[row * kLanes + l]); };
    std::int64_t row = 0;
    for (; row + 4 <= rows; row += 4) {
      for (std::int64_t l = 0; l < kLanes; ++l) {
        const P four = join_four(at(row, l), at(row + 1, l), at(row + 2, l), at(row + 3, l));
        lanes[l] = F::join(lanes[l], four);
      }
    }
    for (; row < rows; ++row) {
      for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] = F::join(lanes[l], at(row, l));
    }
  }

  static Lanes<P> reduce_lanes(const T* x, std::int64_t step, std::int64_t rows) {
    Lanes<P> lanes;
    if (rows > ReduceLoops::kRows) {
      const std::int64_t half = half_of(rows);
      lanes = reduce_lanes(x, step, half);
      const Lanes<P> rest = reduce_lanes(x + half * kLanes * step, step, rows - half);
      for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] = F::join(lanes[l], rest[l]);
      return lanes;
    }
    lanes.fill(F::template start<T>());
    std::array<T, ReduceLoops::kRows * kLanes> packed;
    if (step != 1) {
      pack(x, step, rows * kLanes, packed.data());
      x = packed.data();
    }
    join_rows(x, rows, lanes);
    return lanes;
  }

  // For integers the order does not matter, and the compiler vectorizes a simple loop. Floating elements form
  // kLanes interleaved parts that are joined as a tree.
  static P run_of(const T* x, std::int64_t step, std::int64_t n) {
    if constexpr (std::is_integral_v<P>) {
      P total = F::template start<T>();
      if (step == 1) {
        for (std::int64_t i = 0; i < n; ++i) total = F::join(total, take(x[i]));
      } else {
        for (std::int64_t i = 0; i < n; ++i) total = F::join(total, take(x[i * step]));
      }
      return total;
    } else {
      Lanes<P> lanes = reduce_lanes(x, step, n / kLanes);
      for (std::int64_t i = n / kLanes * kLanes, l = 0; i < n; ++i, ++l)
        lanes[l] = F::join(lanes[l], take(x[i * step]));
      for (std::int64_t width = kLanes / 2; width > 0; width /= 2) {
        for (std::int64_t l = 0; l < width; ++l) lanes[l] = F::join(lanes[l], lanes[l + width]);
      }
      return lanes[0];
    }
  }

  static void start(void* partial, std::int64_t n) {
    std::fill_n(static_cast<P*>(partial), n, F::template start<T>());
  }
  static void run(const void* x, std::int64_t step, std::int64_t n, void* partial) {
    *static_cast<P*>(partial) = run_of(static_cast<const T*>(x), step, n);
  }
  static void four_rows(const void* const* rows, void* partial, std::int64_t n) {
    const T *a = static_cast<const T*>(rows[0]), *b = static_cast<const T*>(rows[1]);
    const T *c = static_cast<const T*>(rows[2]), *d = static_cast<const T*>(rows[3]);
    P* into = static_cast<P*>(partial);
#pragma GCC ivdep
    for (std::int64_t j = 0; j < n; ++j)
      into[j] = F::join(into[j], join_four(take(a[j]), take(b[j]), take(c[j]), take(d[j])));
  }
  static void one_row(const void* row, void* partial, std::int64_t n) {
    const T* from = static_cast<const T*>(row);
    P* into = static_cast<P*>(partial);
#pragma GCC ivdep
    for (std::int64_t j = 0; j < n; ++j) into[j] = F::join(into[j], take(from[j]));
  }
  static void join(const void* partial, void* other, std::int64_t n) {
    const P* from = static_cast<const P*>(partial);
    P* into = static_cast<P*>(other);
    for (std::int64_t j = 0; j < n; ++j) into[j] = F::join(into[j], from[j]);
  }
  static void finish(const void* partial, std::int64_t n, std::int64_t count, void* y, std::int64_t step) {
    const P* from = static_cast<const P*>(partial);
    R* to = static_cast<R*>(y);
    for (std::int64_t j = 0; j < n; ++j) to[j * step] = F::template finish<R>(from[j], count);
  }
  static void pack(const void* x, std::int64_t step, std::int64_t n, void* to) {
    const T* from = static_cast<const T*>(x);
    T* packed = static_cast<T*>(to);
    for (std::int64_t j = 0; j < n; ++j) packed[j] = from[j * step];
  }

  static constexpr ReduceLoops kAll{sizeof(T), sizeof(P), sizeof(R), start,  run,
                                    four_rows, one_row,   join,      finish, pack};
};

}  // namespace heddle::cpu_kernels::reduction
