// Reductions along runs of elements, one result after the other.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "cpu/chunks.h"
#include "cpu/reduction/join.h"
#include "cpu/reduction/plan.h"

namespace heddle::cpu_kernels::reduction {

constexpr std::int64_t kLanes = 64;  // independent partial results, for vector registers

template <class P> using Lanes = std::array<P, kLanes>;

// Joins `rows` rows of kLanes elements, four at a time while there are four, into the lanes.
template <class F, class T, class P> void join_rows(const T* x, std::int64_t rows, Lanes<P>& lanes) {
  const auto at = [x](std::int64_t row, std::int64_t l) { return F::template take<P>(x[row * kLanes + l]); };
  std::int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    for (std::int64_t l = 0; l < kLanes; ++l) {
      const P four = join_four<F, P>(at(row, l), at(row + 1, l), at(row + 2, l), at(row + 3, l));
      lanes[l] = F::join(lanes[l], four);
    }
  }
  for (; row < rows; ++row) {
    for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] = F::join(lanes[l], at(row, l));
  }
}

// `rows` rows of kLanes elements, which lie `step` apart.
template <class F, class T, class P> Lanes<P> reduce_lanes(const T* x, std::int64_t step, std::int64_t rows) {
  Lanes<P> lanes;
  if (rows > kRows) {
    const std::int64_t half = half_of(rows);
    lanes = reduce_lanes<F, T, P>(x, step, half);
    const Lanes<P> rest = reduce_lanes<F, T, P>(x + half * kLanes * step, step, rows - half);
    for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] = F::join(lanes[l], rest[l]);
    return lanes;
  }
  lanes.fill(F::template start<T>());
  std::array<T, kRows * kLanes> packed;
  if (step != 1) {
    for (std::int64_t i = 0; i < rows * kLanes; ++i) packed[static_cast<std::size_t>(i)] = x[i * step];
    x = packed.data();
  }
  join_rows<F>(x, rows, lanes);
  return lanes;
}

// n elements that lie `step` apart. The order makes no difference to integers, from whose loop the compiler makes vector code.
// Floating numbers are in kLanes interleaved parts that are joined as a tree.
template <class F, class T, class P> P reduce_run(const T* x, std::int64_t step, std::int64_t n) {
  if constexpr (std::is_integral_v<P>) {
    P total = F::template start<T>();
    if (step == 1) {
      for (std::int64_t i = 0; i < n; ++i) total = F::join(total, F::template take<P>(x[i]));
    } else {
      for (std::int64_t i = 0; i < n; ++i) total = F::join(total, F::template take<P>(x[i * step]));
    }
    return total;
  } else {
    Lanes<P> lanes = reduce_lanes<F, T, P>(x, step, n / kLanes);
    for (std::int64_t i = n / kLanes * kLanes, l = 0; i < n; ++i, ++l)
      lanes[l] = F::join(lanes[l], F::template take<P>(x[i * step]));
    for (std::int64_t width = kLanes / 2; width > 0; width /= 2) {
      for (std::int64_t l = 0; l < width; ++l) lanes[l] = F::join(lanes[l], lanes[l + width]);
    }
    return lanes[0];
  }
}

// Elements [begin, end) of the reduced axes, for one result.
template <class F, class T, class P>
P reduce_range(const AxisGroup& axes, const T* x, std::int64_t begin, std::int64_t end) {
  if (begin >= end) return F::template start<T>();
  const std::int64_t inner = axes.inner_size();
  const std::int64_t first_run = begin / inner, last_run = (end - 1) / inner;
  if (first_run == last_run)
    return reduce_run<F, T, P>(x + axes.offsets(begin)[0], axes.inner_step(), end - begin);
  const std::int64_t middle = (first_run + last_run + 1) / 2 * inner;
  const P before = reduce_range<F, T, P>(axes, x, begin, middle);
  return F::join(before, reduce_range<F, T, P>(axes, x, middle, end));
}

template <class F, class T, class R> void reduce_rows(const ReducePlan& plan, const T* x, R* y) {
  using P = typename F::template Partial<T>;
  const std::int64_t results = plan.kept.count(), count = plan.reduced.count();
  const Cuts cuts(count, kChunk);
  std::vector<P> partial(cuts.number > 1 ? static_cast<std::size_t>(results * cuts.number) : 0);
  const std::int64_t grain =
      std::max<std::int64_t>(1, kChunk / std::max<std::int64_t>(1, std::min(count, kChunk)));
  parallel_chunks(results * cuts.number, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const auto [from, to] = plan.kept.offsets(unit / cuts.number);
      const std::int64_t first = unit % cuts.number * cuts.size, last = std::min(count, first + cuts.size);
      const P total = reduce_range<F, T, P>(plan.reduced, x + from, first, last);
      if (cuts.number == 1)
        y[to] = F::template finish<R>(total, count);
      else
        partial[static_cast<std::size_t>(unit)] = total;
    }
  });
  if (cuts.number == 1) return;
  for (std::int64_t result = 0; result < results; ++result) {
    P* parts = partial.data() + result * cuts.number;
    join_parts<F>(parts, cuts.number, 1, 1);
    y[plan.kept.offsets(result)[1]] = F::template finish<R>(parts[0], count);
  }
}

}  // namespace heddle::cpu_kernels::reduction
