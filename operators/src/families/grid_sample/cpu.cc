// The kernels of sampling. Places are done in tiles: the elements and weights of a tile are found once, for all channels.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "cpu/loops/chunks.h"
#include "families/grid_sample/kernels.h"
#include "families/grid_sample/taps_functors.h"

namespace heddle::cpu_kernels {
namespace {

using namespace functors;

constexpr std::int64_t kTile = 128;          // places
constexpr std::int64_t kChannelsAtOnce = 8;  // of a chunk of the transpose

GridRule rule_of(const GridProblem& p) { return {static_cast<GridEdge>(p.padding), p.align_corners}; }

// Elements and weights of the places of a tile: those of number k are in row k.
template <class T> struct Tile {
  static constexpr int kMost = 16;  // cubic has two axes, three axes have two taps each
  int count = 0;
  std::int64_t index[kMost][kTile];  // in a plane of the image; -1: outside
  T weight[kMost][kTile];

  void fill(const GridProblem& p, const std::array<std::int8_t, 3>& order, const T* grid, std::int64_t n) {
    if (p.mode == Interpolation::nearest) return fill_taps<1>(p, order, grid, n);
    if (p.mode == Interpolation::linear) return fill_taps<2>(p, order, grid, n);
    fill_taps<4>(p, order, grid, n);
  }
  template <int kTaps>
  void fill_taps(const GridProblem& p, const std::array<std::int8_t, 3>& order, const T* grid,
                 std::int64_t n) {
    const GridRule rule = rule_of(p);
    constexpr std::size_t taps = kTaps;
    const std::size_t depth = kTaps < 4 && p.axes == 3 ? taps : 1;
    count = static_cast<int>(depth * taps * taps);
    for (std::int64_t i = 0; i < n; ++i) {
      const T* const at = grid + i * p.axes;
      const auto x = axis_taps<kTaps>(rule, at[0], p.in[2], order[2]),
                 y = axis_taps<kTaps>(rule, at[1], p.in[1], order[1]);
      Taps<T, kTaps> z{};
      z.weight[0] = T(1);
      if (p.axes == 3) z = axis_taps<kTaps>(rule, at[2], p.in[0], order[0]);
      int row = 0;
      for (std::size_t a = 0; a < depth; ++a)
        for (std::size_t b = 0; b < taps; ++b)
          for (std::size_t c = 0; c < taps; ++c, ++row) {
            const bool inside = z.index[a] >= 0 && y.index[b] >= 0 && x.index[c] >= 0;
            index[row][i] = inside ? (z.index[a] * p.in[1] + y.index[b]) * p.in[2] + x.index[c] : -1;
            weight[row][i] = z.weight[a] * y.weight[b] * x.weight[c];
          }
    }
  }
  // to[i] = the element of a plane at place i.
  void sample(const T* plane, std::int64_t n, T* to) const {
    std::fill_n(to, n, T(0));
    for (int row = 0; row < count; ++row)
      for (std::int64_t i = 0; i < n; ++i)
        to[i] += index[row][i] < 0 ? T(0) : weight[row][i] * plane[index[row][i]];
  }
  void spread(const T* g, std::int64_t n, T* plane) const {
    for (std::int64_t i = 0; i < n; ++i)
      for (int row = 0; row < count; ++row)
        if (index[row][i] >= 0) plane[index[row][i]] += weight[row][i] * g[i];
  }
};

std::int64_t plane_size(const GridProblem& p) { return p.in[0] * p.in[1] * p.in[2]; }

// Calls body(batch element, first place, number of places) for each tile, in chunks of tiles.
template <class Body> void for_each_tile(const GridProblem& p, const Body& body) {
  const std::int64_t tiles = (p.places + kTile - 1) / kTile;
  const std::int64_t work = kTile * (p.channels + 4);
  parallel_chunks(p.batch * tiles, std::max<std::int64_t>(1, kElementGrain / 4 / work),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t i = begin; i < end; ++i) {
                      const std::int64_t first = i % tiles * kTile;
                      body(i / tiles, first, std::min(kTile, p.places - first));
                    }
                  });
}

template <class T> void sample(const GridProblem& p, const T* x, const T* grid, T* y) {
  const std::int64_t plane = plane_size(p);
  for_each_tile(p, [&](std::int64_t b, std::int64_t first, std::int64_t n) {
    Tile<T> tile;
    tile.fill(p, p.order, grid + (b * p.places + first) * p.axes, n);
    for (std::int64_t c = b * p.channels; c < (b + 1) * p.channels; ++c)
      tile.sample(x + c * plane, n, y + c * p.places + first);
  });
}

// A chunk has some planes of the image, which nobody else writes; places are added in their order.
template <class T> void spread(const GridProblem& p, const T* g, const T* grid, T* x_grad) {
  const std::int64_t plane = plane_size(p), blocks = (p.channels + kChannelsAtOnce - 1) / kChannelsAtOnce;
  parallel_chunks(p.batch * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t b = i / blocks, from = i % blocks * kChannelsAtOnce,
                         to = std::min(from + kChannelsAtOnce, p.channels);
      std::fill_n(x_grad + (b * p.channels + from) * plane, (to - from) * plane, T(0));
      Tile<T> tile;
      for (std::int64_t first = 0; first < p.places; first += kTile) {
        const std::int64_t n = std::min(kTile, p.places - first);
        tile.fill(p, p.order, grid + (b * p.places + first) * p.axes, n);
        for (std::int64_t c = b * p.channels + from; c < b * p.channels + to; ++c)
          tile.spread(g + c * p.places + first, n, x_grad + c * plane);
      }
    }
  });
}

template <class T>
void grid_gradient(const GridProblem& p, const T* g, const T* x, const T* grid, T* grid_grad) {
  const std::int64_t plane = plane_size(p);
  for_each_tile(p, [&](std::int64_t b, std::int64_t first, std::int64_t n) {
    Tile<T> tile;
    for (int axis = 0; axis < p.axes; ++axis) {
      std::array<std::int8_t, 3> order = p.order;
      ++order[static_cast<std::size_t>(2 - axis)];
      const std::int64_t at = b * p.places + first;
      tile.fill(p, order, grid + at * p.axes, n);
      T sum[kTile] = {}, values[kTile];
      for (std::int64_t c = b * p.channels; c < (b + 1) * p.channels; ++c) {
        tile.sample(x + c * plane, n, values);
        const T* const of = g + c * p.places + first;
        for (std::int64_t i = 0; i < n; ++i) sum[i] += of[i] * values[i];
      }
      for (std::int64_t i = 0; i < n; ++i) grid_grad[(at + i) * p.axes + axis] = sum[i];
    }
  });
}

void sample_kernel(const KernelContext&, const GridProblem& p, const NDArray& x, const NDArray& grid,
                   const NDArray& y) {
  visit_floating(x.dtype(),
                 [&]<class T>() { sample(p, x.data<const T>(), grid.data<const T>(), y.data<T>()); });
}
void spread_kernel(const KernelContext&, const GridProblem& p, const NDArray& g, const NDArray& grid,
                   const NDArray& x_grad) {
  visit_floating(g.dtype(),
                 [&]<class T>() { spread(p, g.data<const T>(), grid.data<const T>(), x_grad.data<T>()); });
}
void gradient_kernel(const KernelContext&, const GridProblem& p, const NDArray& g, const NDArray& x,
                     const NDArray& grid, const NDArray& grid_grad) {
  visit_floating(g.dtype(), [&]<class T>() {
    grid_gradient(p, g.data<const T>(), x.data<const T>(), grid.data<const T>(), grid_grad.data<T>());
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(grid_sample) {
  table.add<GridSampleKernel>("grid_sample", DeviceKind::cpu, sample_kernel);
  table.add<GridSpreadKernel>("grid_sample_spread", DeviceKind::cpu, spread_kernel);
  table.add<GridGradientKernel>("grid_sample_grid", DeviceKind::cpu, gradient_kernel);
}

}  // namespace heddle::cpu_kernels
