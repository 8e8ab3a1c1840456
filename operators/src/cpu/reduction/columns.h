// Reductions of neighbouring results together, where these have neighbouring elements.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "cpu/chunks.h"
#include "cpu/reduction/join.h"
#include "cpu/reduction/plan.h"

namespace heddle::cpu_kernels::reduction {

constexpr std::int64_t kTile = 256;  // results that are summed up together

// Four rows of input, or one, into `width` neighbouring partial results: four at once, so that these are loaded and stored
// less often.
template <class F, class T, class P>
void join_rows(const std::array<const T*, 4>& from, P* partial, std::int64_t width) {
  const auto [a, b, c, d] = from;
  const auto take = [](T x) { return F::template take<P>(x); };
#pragma GCC ivdep
  for (std::int64_t j = 0; j < width; ++j)
    partial[j] = F::join(partial[j], join_four<F, P>(take(a[j]), take(b[j]), take(c[j]), take(d[j])));
}
template <class F, class T, class P> void join_row(const T* from, P* partial, std::int64_t width) {
#pragma GCC ivdep
  for (std::int64_t j = 0; j < width; ++j) partial[j] = F::join(partial[j], F::template take<P>(from[j]));
}

// The rows of the reduced axes in one tile; those whose elements do not lie together are copied.
template <class T> class TileRows {
 public:
  TileRows(const ReducePlan& plan, const T* x, std::int64_t width)
      : plan_(plan), x_(x), width_(width), step_(plan.kept.inner_step()) {}
  // Valid until the next call with the same `place`, 0 to 3.
  const T* row(std::int64_t row, std::size_t place) {
    const T* from = x_ + plan_.reduced.offsets(row)[0];
    if (step_ == 1) return from;
    T* copy = copies_[place].data();
    for (std::int64_t j = 0; j < width_; ++j) copy[j] = from[j * step_];
    return copy;
  }

 private:
  const ReducePlan& plan_;
  const T* x_;
  std::int64_t width_, step_;
  std::array<std::array<T, kTile>, 4> copies_;
};

// Rows [begin, end) into `width` neighbouring partial results.
template <class F, class T, class P>
void reduce_tile(TileRows<T>& rows, std::int64_t begin, std::int64_t end, P* partial, std::int64_t width) {
  if (end - begin > kRows) {
    const std::int64_t middle = begin + half_of(end - begin);
    std::array<P, kTile> rest;
    reduce_tile<F>(rows, begin, middle, partial, width);
    reduce_tile<F>(rows, middle, end, rest.data(), width);
    for (std::int64_t j = 0; j < width; ++j) partial[j] = F::join(partial[j], rest[j]);
    return;
  }
  std::fill(partial, partial + width, F::template start<T>());
  std::int64_t row = begin;
  for (; row + 4 <= end; row += 4) {
    const std::array from{rows.row(row, 0), rows.row(row + 1, 1), rows.row(row + 2, 2), rows.row(row + 3, 3)};
    join_rows<F>(from, partial, width);
  }
  for (; row < end; ++row) join_row<F>(rows.row(row, 0), partial, width);
}

// One tile of neighbouring results and where it lies.
struct Tile {
  std::int64_t from, to, width;
};

inline Tile tile_at(const AxisGroup& kept, std::int64_t tile) {
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
      TileRows<T> rows(plan, x + tile.from, tile.width);
      reduce_tile<F>(rows, first, last, into, tile.width);
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

}  // namespace heddle::cpu_kernels::reduction
