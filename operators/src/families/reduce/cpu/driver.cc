// Iterates a reduction: along runs of elements, or over tiles of adjacent results.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/loops/chunks.h"
#include "families/reduce/cpu/loops.h"
#include "families/reduce/cpu/plan.h"

namespace heddle::cpu_kernels {

namespace {

constexpr std::int64_t kChunk = 65536;    // input elements per partial result
constexpr std::int64_t kMostChunks = 64;  // most partial results per result
constexpr std::int64_t kTile = 256;       // adjacent results computed together

// How the reduced axes are cut into chunks, so that several workers can compute one result. The cuts depend
// on shapes alone.
struct Cuts {
  Cuts(std::int64_t elements, std::int64_t smallest)
      : count(elements),
        size(std::max(smallest, (count + kMostChunks - 1) / kMostChunks)),
        number(std::max<std::int64_t>(1, (count + size - 1) / size)) {}
  std::int64_t first(std::int64_t unit) const { return unit % number * size; }
  std::int64_t last(std::int64_t unit) const { return std::min(count, first(unit) + size); }
  std::int64_t count, size, number;
};

// One call of reduce(): the axes, the loops, the memory of input and results.
struct Reduction {
  const ReducePlan& plan;
  const ReduceLoops& loops;
  const std::byte* x;
  std::byte* y;

  const std::byte* element(std::int64_t offset) const {
    return x + offset * static_cast<std::int64_t>(loops.element);
  }
  void finish(const std::byte* partial, std::int64_t n, std::int64_t count, std::int64_t offset,
              std::int64_t step) const {
    loops.finish(partial, n, count, y + offset * static_cast<std::int64_t>(loops.result), step);
  }
};

// Partial results, aligned for any type of them.
class Partials {
 public:
  Partials(const ReduceLoops& loops, std::int64_t count)
      : size_(static_cast<std::int64_t>(loops.partial)), bytes_(static_cast<std::size_t>(count * size_)) {}
  std::byte* at(std::int64_t i) { return bytes_.data() + i * size_; }

 private:
  std::int64_t size_;
  std::vector<std::byte> bytes_;
};

// Joins `number` parts of `width` partial results each into the part that begins at partial result `first`. Parts begin
// `stride` partial results apart.
void join_parts(const ReduceLoops& loops, Partials& all, std::int64_t first, std::int64_t number,
                std::int64_t stride, std::int64_t width) {
  for (std::int64_t gap = 1; gap < number; gap *= 2) {
    for (std::int64_t part = 0; part + gap < number; part += 2 * gap)
      loops.join(all.at(first + (part + gap) * stride), all.at(first + part * stride), width);
  }
}

// Reduces elements [begin, end) of the reduced axes into a partial result; x is the first element of the
// result.
void reduce_range(const Reduction& reduction, const std::byte* x, std::int64_t begin, std::int64_t end,
                  std::byte* partial) {
  const ReduceLoops& loops = reduction.loops;
  const AxisGroup& axes = reduction.plan.reduced;
  if (begin >= end) return loops.start(partial, 1);
  const std::int64_t inner = axes.inner_size();
  const std::int64_t first_run = begin / inner, last_run = (end - 1) / inner;
  if (first_run == last_run) {
    const std::byte* from = x + axes.offsets(begin)[0] * static_cast<std::int64_t>(loops.element);
    return loops.run(from, axes.inner_step(), end - begin, partial);
  }
  const std::int64_t middle = (first_run + last_run + 1) / 2 * inner;
  alignas(8) std::array<std::byte, 8> rest;
  reduce_range(reduction, x, begin, middle, partial);
  reduce_range(reduction, x, middle, end, rest.data());
  loops.join(rest.data(), partial, 1);
}

void reduce_rows(const Reduction& reduction) {
  const auto& [plan, loops, x, y] = reduction;
  const std::int64_t results = plan.kept.count(), count = plan.reduced.count();
  const Cuts cuts(count, kChunk);
  Partials partials(loops, cuts.number > 1 ? results * cuts.number : 0);
  const std::int64_t grain =
      std::max<std::int64_t>(1, kChunk / std::max<std::int64_t>(1, std::min(count, kChunk)));
  parallel_chunks(results * cuts.number, grain, [&](std::int64_t begin, std::int64_t end) {
    alignas(8) std::array<std::byte, 8> local;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const auto [from, to] = plan.kept.offsets(unit / cuts.number);
      std::byte* into = cuts.number > 1 ? partials.at(unit) : local.data();
      reduce_range(reduction, reduction.element(from), cuts.first(unit), cuts.last(unit), into);
      if (cuts.number == 1) reduction.finish(into, 1, count, to, 1);
    }
  });
  if (cuts.number == 1) return;
  for (std::int64_t result = 0; result < results; ++result) {
    join_parts(loops, partials, result * cuts.number, cuts.number, 1, 1);
    reduction.finish(partials.at(result * cuts.number), 1, count, plan.kept.offsets(result)[1], 1);
  }
}

// One tile of adjacent results: its offsets in the input and in the result, and its width.
struct Tile {
  Tile(const AxisGroup& kept, std::int64_t tile) {
    const std::int64_t across = (kept.inner_size() + kTile - 1) / kTile, column = tile % across * kTile;
    const auto [x, y] = kept.offsets(tile / across * kept.inner_size() + column);
    from = x;
    to = y;
    width = std::min(kTile, kept.inner_size() - column);
  }
  std::int64_t from, to, width;
};

struct TilePartials {
  alignas(64) std::array<std::byte, 8 * kTile> bytes;
};

// The rows of the reduced axes in one tile; rows of strided elements are copied first.
class TileRows {
 public:
  TileRows(const Reduction& reduction, const Tile& tile)
      : reduction_(reduction),
        x_(reduction.element(tile.from)),
        width_(tile.width),
        step_(reduction.plan.kept.inner_step()) {}

  // Reduces rows [begin, end) into adjacent partial results.
  void reduce(std::int64_t begin, std::int64_t end, std::byte* partial) {
    const ReduceLoops& loops = reduction_.loops;
    if (end - begin > ReduceLoops::kRows) {
      const std::int64_t middle = begin + reduction::half_of(end - begin);
      TilePartials rest;
      reduce(begin, middle, partial);
      reduce(middle, end, rest.bytes.data());
      return loops.join(rest.bytes.data(), partial, width_);
    }
    loops.start(partial, width_);
    std::int64_t row = begin;
    for (; row + 4 <= end; row += 4) {
      const void* const four[] = {at(row, 0), at(row + 1, 1), at(row + 2, 2), at(row + 3, 3)};
      loops.four_rows(four, partial, width_);
    }
    for (; row < end; ++row) loops.one_row(at(row, 0), partial, width_);
  }

 private:
  const std::byte* at(std::int64_t row, std::size_t place) {
    const ReduceLoops& loops = reduction_.loops;
    const std::byte* from =
        x_ + reduction_.plan.reduced.offsets(row)[0] * static_cast<std::int64_t>(loops.element);
    if (step_ == 1) return from;
    loops.pack(from, step_, width_, copies_[place].bytes.data());
    return copies_[place].bytes.data();
  }

  const Reduction& reduction_;
  const std::byte* x_;
  std::int64_t width_, step_;
  std::array<TilePartials, 4> copies_;
};

void reduce_columns(const Reduction& reduction) {
  const auto& [plan, loops, x, y] = reduction;
  const std::int64_t inner = plan.kept.inner_size(), count = plan.reduced.count();
  const std::int64_t width = std::min(inner, kTile), step = plan.kept.result_steps[plan.kept.dims - 1];
  const std::int64_t tiles = plan.kept.count() / inner * ((inner + kTile - 1) / kTile);
  const Cuts cuts(count, std::max<std::int64_t>(1, kChunk / width));
  Partials partials(loops, cuts.number > 1 ? tiles * cuts.number * kTile : 0);
  const std::int64_t grain = std::max<std::int64_t>(1, kChunk / (width * std::min(count, cuts.size)));
  parallel_chunks(tiles * cuts.number, grain, [&](std::int64_t begin, std::int64_t end) {
    TilePartials local;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const Tile tile(plan.kept, unit / cuts.number);
      std::byte* into = cuts.number > 1 ? partials.at(unit * kTile) : local.bytes.data();
      TileRows(reduction, tile).reduce(cuts.first(unit), cuts.last(unit), into);
      if (cuts.number == 1) reduction.finish(into, tile.width, count, tile.to, step);
    }
  });
  if (cuts.number == 1) return;
  for (std::int64_t t = 0; t < tiles; ++t) {
    const Tile tile(plan.kept, t);
    const std::int64_t first = t * cuts.number * kTile;
    join_parts(loops, partials, first, cuts.number, kTile, tile.width);
    reduction.finish(partials.at(first), tile.width, count, tile.to, step);
  }
}

}  // namespace

void reduce(const NDArray& x, const NDArray& y, const Dims& axes, const ReduceLoops& loops) {
  const ReducePlan plan(x, y, axes);
  if (y.size() == 0) return;
  const Reduction reduction{plan, loops, x.data<const std::byte>(), y.data<std::byte>()};
  plan.by_columns() && plan.reduced.count() > 0 ? reduce_columns(reduction) : reduce_rows(reduction);
}

}  // namespace heddle::cpu_kernels
