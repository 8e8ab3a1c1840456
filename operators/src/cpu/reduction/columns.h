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

// `rows` rows of input into `width` neighbouring partial results: several at once, so that these are loaded and
// stored less often.
template <std::size_t rows, class F, class T, class P>
void join_rows(const std::array<const T*, rows>& from, std::int64_t step, P* partial, std::int64_t width) {
  const auto column = [&](std::int64_t j, std::int64_t at) {
    const auto value = [&](std::size_t row) { return F::template take<P>(from[row][at]); };
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

}  // namespace heddle::cpu_kernels::reduction
