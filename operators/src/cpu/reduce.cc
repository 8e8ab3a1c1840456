#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "cpu/reduce_plan.h"
#include "cpu/register.h"
#include "cpu/strided_loop.h"
#include "kernels/reduce_kernels.h"

namespace heddle::cpu_kernels {

namespace {

constexpr std::int64_t kLanes = 64;       // independent partial results, for vector registers
constexpr std::int64_t kRows = 32;        // rows joined one after the other; more rows are joined by halves
constexpr std::int64_t kTile = 256;       // results that are summed up together
constexpr std::int64_t kChunk = 65536;    // input elements of one partial result
constexpr std::int64_t kMostChunks = 64;  // partial results of one result

// The type of a sum: f64 for floats; unsigned for integers, which may wrap around.
template <class T> using SumOf = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;

struct Sum {
  template <class T> using Partial = SumOf<T>;
  template <class T> static Partial<T> start() { return 0; }
  template <class P> static P join(P a, P b) { return a + b; }
  template <class R, class P> static R finish(P total, std::int64_t) { return static_cast<R>(total); }
};

struct Product : Sum {
  template <class T> static Partial<T> start() { return 1; }
  template <class P> static P join(P a, P b) { return a * b; }
};

struct Mean : Sum {
  template <class R, class P> static R finish(P total, std::int64_t count) {
    return static_cast<R>(total / static_cast<P>(count));
  }
};

// NaN if either side is. Two conditional moves, from which the compiler makes vector code.
struct Max {
  template <class T>
  using Partial = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;  // no vector<bool>
  template <class T> static T start() {
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  }
  template <class T> static T join(T a, T b) {
    const T larger = b > a ? b : a;
    return b != b ? b : larger;
  }
  template <class R, class P> static R finish(P best, std::int64_t) { return best; }
};

struct Min : Max {
  template <class T> static T start() {
    using Limits = std::numeric_limits<T>;
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
  }
  template <class T> static T join(T a, T b) {
    const T smaller = b < a ? b : a;
    return b != b ? b : smaller;
  }
};

// Rows are joined by halves, recursively, until few rows are left: rounding errors of sums then grow with the logarithm
// of their length (pairwise summation: Higham, SIAM J. Sci. Comput. 1993).

// The number of rows in the first half, if there are more than kRows: a multiple of four, because four are joined at
// once.
std::int64_t half_of(std::int64_t rows) { return (rows / 2 + 3) / 4 * 4; }

template <class F, class P> P join_four(P a, P b, P c, P d) { return F::join(F::join(a, b), F::join(c, d)); }

template <class P> using Lanes = std::array<P, kLanes>;

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
  const auto join_rows = [&](std::int64_t distance) {
    const auto at = [=](std::int64_t row, std::int64_t l) {
      return static_cast<P>(x[(row * kLanes + l) * distance]);
    };
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
  };
  step == 1 ? join_rows(1) : join_rows(step);  // The compiler makes vector code for a step of 1.
  return lanes;
}

// n elements that lie `step` apart, in kLanes interleaved parts that are joined as a tree.
template <class F, class T, class P> P reduce_run(const T* x, std::int64_t step, std::int64_t n) {
  Lanes<P> lanes = reduce_lanes<F, T, P>(x, step, n / kLanes);
  for (std::int64_t i = n / kLanes * kLanes, l = 0; i < n; ++i, ++l)
    lanes[l] = F::join(lanes[l], static_cast<P>(x[i * step]));
  for (std::int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::int64_t l = 0; l < width; ++l) lanes[l] = F::join(lanes[l], lanes[l + width]);
  }
  return lanes[0];
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

// `rows` rows of input into `width` neighbouring partial results: several at once, so that these are loaded and
// stored less often.
template <std::size_t rows, class F, class T, class P>
void join_rows(const std::array<const T*, rows>& from, std::int64_t step, P* partial, std::int64_t width) {
  const auto column = [&](std::int64_t j, std::int64_t at) {
    const auto value = [&](std::size_t row) { return static_cast<P>(from[row][at]); };
    if constexpr (rows == 4) {
      partial[j] = F::join(partial[j], join_four<F, P>(value(0), value(1), value(2), value(3)));
    } else {
      partial[j] = F::join(partial[j], value(0));
    }
  };
  if (step == 1) {
#pragma GCC ivdep
    for (std::int64_t j = 0; j < width; ++j) column(j, j);
  } else {
    for (std::int64_t j = 0; j < width; ++j) column(j, j * step);
  }
}

// Rows [begin, end) of the reduced axes into `width` neighbouring partial results.
template <class F, class T, class P>
void reduce_tile(const ReducePlan& plan, const T* x, std::int64_t begin, std::int64_t end, P* partial,
                 std::int64_t width) {
  if (end - begin > kRows) {
    const std::int64_t middle = begin + half_of(end - begin);
    std::array<P, kTile> rest;
    reduce_tile<F, T, P>(plan, x, begin, middle, partial, width);
    reduce_tile<F, T, P>(plan, x, middle, end, rest.data(), width);
    for (std::int64_t j = 0; j < width; ++j) partial[j] = F::join(partial[j], rest[j]);
    return;
  }
  const std::int64_t step = plan.kept.inner_step();
  std::fill(partial, partial + width, F::template start<T>());
  const auto row_at = [&](std::int64_t row) { return x + plan.reduced.offsets(row)[0]; };
  std::int64_t row = begin;
  for (; row + 4 <= end; row += 4) {
    const std::array from{row_at(row), row_at(row + 1), row_at(row + 2), row_at(row + 3)};
    join_rows<4, F>(from, step, partial, width);
  }
  for (; row < end; ++row) join_rows<1, F>(std::array{row_at(row)}, step, partial, width);
}

// One tile of neighbouring results and where it lies.
struct Tile {
  std::int64_t from, to, width;
};

Tile tile_at(const AxisGroup& kept, std::int64_t tile) {
  const std::int64_t across = (kept.inner_size() + kTile - 1) / kTile;
  const std::int64_t column = tile % across * kTile;
  const auto [from, to] = kept.offsets(tile / across * kept.inner_size() + column);
  return {from, to, std::min(kTile, kept.inner_size() - column)};
}

template <class F, class R, class P>
void finish_tile(const P* partial, R* y, std::int64_t step, std::int64_t width, std::int64_t count) {
  for (std::int64_t j = 0; j < width; ++j) y[j * step] = F::template finish<R>(partial[j], count);
}

template <class F, class T, class R> void reduce_columns(const ReducePlan& plan, const T* x, R* y) {
  using P = typename F::template Partial<T>;
  const std::int64_t inner = plan.kept.inner_size(), count = plan.reduced.count();
  const std::int64_t width = std::min(inner, kTile), step = plan.kept.result_steps[plan.kept.dims - 1];
  const std::int64_t tiles = plan.kept.count() / inner * ((inner + kTile - 1) / kTile);
  const Cuts cuts(count, std::max<std::int64_t>(1, kChunk / width));
  std::vector<P> partial(cuts.number > 1 ? static_cast<std::size_t>(tiles * cuts.number * kTile) : 0);
  const std::int64_t grain = std::max<std::int64_t>(1, kChunk / (width * std::min(count, cuts.size)));
  parallel_chunks(tiles * cuts.number, grain, [&](std::int64_t begin, std::int64_t end) {
    std::array<P, kTile> local;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const Tile tile = tile_at(plan.kept, unit / cuts.number);
      const std::int64_t first = unit % cuts.number * cuts.size, last = std::min(count, first + cuts.size);
      P* into = cuts.number > 1 ? partial.data() + unit * kTile : local.data();
      reduce_tile<F, T, P>(plan, x + tile.from, first, last, into, tile.width);
      if (cuts.number == 1) finish_tile<F, R>(into, y + tile.to, step, tile.width, count);
    }
  });
  if (cuts.number == 1) return;
  for (std::int64_t t = 0; t < tiles; ++t) {
    const Tile tile = tile_at(plan.kept, t);
    P* total = partial.data() + t * cuts.number * kTile;
    join_parts<F>(total, cuts.number, kTile, tile.width);
    finish_tile<F, R>(total, y + tile.to, step, tile.width, count);
  }
}

template <class F, class T, class R> void reduce(const NDArray& x, const NDArray& y, const Dims& axes) {
  const ReducePlan plan(x, y, axes);
  if (y.size() == 0) return;
  if (plan.by_columns() && plan.reduced.count() > 0)
    return reduce_columns<F>(plan, x.data<const T>(), y.data<R>());
  reduce_rows<F>(plan, x.data<const T>(), y.data<R>());
}

// The type of a sum or product: sum_dtype's.
template <class T>
using Total = std::conditional_t<
    std::is_floating_point_v<T>, T,
    std::conditional_t<std::is_unsigned_v<T> && !std::is_same_v<T, bool>, std::uint64_t, std::int64_t>>;

void sum_kernel(const NDArray& x, const NDArray& y, const Dims& axes) {
  visit_number(x.dtype(), [&]<class T> { reduce<Sum, T, Total<T>>(x, y, axes); });
}

void product_kernel(const NDArray& x, const NDArray& y, const Dims& axes) {
  visit_number(x.dtype(), [&]<class T> { reduce<Product, T, Total<T>>(x, y, axes); });
}

void mean_kernel(const NDArray& x, const NDArray& y, const Dims& axes) {
  if (x.dtype() == DType::f64) return reduce<Mean, double, double>(x, y, axes);
  reduce<Mean, float, float>(x, y, axes);
}

template <class F> void extreme_kernel(const NDArray& x, const NDArray& y, const Dims& axes) {
  visit_number(x.dtype(), [&]<class T> { reduce<F, T, T>(x, y, axes); });
}

}  // namespace

void register_reduce(KernelTable& table) {
  table.add<ReduceKernel>("sum", DeviceKind::cpu, sum_kernel);
  table.add<ReduceKernel>("mean", DeviceKind::cpu, mean_kernel);
  table.add<ReduceKernel>("prod", DeviceKind::cpu, product_kernel);
  table.add<ReduceKernel>("max", DeviceKind::cpu, extreme_kernel<Max>);
  table.add<ReduceKernel>("min", DeviceKind::cpu, extreme_kernel<Min>);
}

}  // namespace heddle::cpu_kernels
