// What the loops of a reduction share. F is a way of joining elements:
//   F::Partial<T>       the type of partial results of elements of type T
//   F::start<T>()       the partial result of no element
//   F::take<P>(x)       that of one element
//   F::join(a, b)       that of both
//   F::finish<R>(p, n)  the result of n elements
// The order depends on shapes alone, so that results do not depend on the number of workers.
#pragma once

#include <algorithm>
#include <cstdint>

namespace heddle::cpu_kernels::reduction {

constexpr std::int64_t kRows = 32;        // rows joined one after the other; more rows are joined by halves
constexpr std::int64_t kChunk = 65536;    // input elements of one partial result
constexpr std::int64_t kMostChunks = 64;  // partial results of one result

// Rows are joined by halves, recursively, until few rows are left: rounding errors of sums then grow with the logarithm
// of their length (pairwise summation: Higham, SIAM J. Sci. Comput. 1993).

// The number of rows in the first half, if there are more than kRows: a multiple of four, because four are joined at
// once.
inline std::int64_t half_of(std::int64_t rows) { return (rows / 2 + 3) / 4 * 4; }

template <class F, class P> P join_four(P a, P b, P c, P d) { return F::join(F::join(a, b), F::join(c, d)); }

// Joins `number` parts of `width` values, `stride` apart, into the first one.
template <class F, class P>
void join_parts(P* parts, std::int64_t number, std::int64_t stride, std::int64_t width) {
  for (std::int64_t gap = 1; gap < number; gap *= 2) {
    for (std::int64_t part = 0; part + gap < number; part += 2 * gap) {
      P* into = parts + part * stride;
      const P* from = into + gap * stride;
      for (std::int64_t i = 0; i < width; ++i) into[i] = F::join(into[i], from[i]);
    }
  }
}

// How the reduced axes are cut into chunks, so that several workers can compute one result. Depends on shapes alone.
struct Cuts {
  Cuts(std::int64_t count, std::int64_t smallest)
      : size(std::max(smallest, (count + kMostChunks - 1) / kMostChunks)),
        number(std::max<std::int64_t>(1, (count + size - 1) / size)) {}
  std::int64_t size, number;
};

}  // namespace heddle::cpu_kernels::reduction
