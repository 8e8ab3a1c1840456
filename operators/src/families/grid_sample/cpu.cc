// The kernels of sampling. Places are done in tiles: the elements and weights of a tile are found once, for all channels.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "cpu/loops/chunks.h"
#include "families/grid_sample/kernels.h"

namespace heddle::cpu_kernels {
namespace {

constexpr std::int64_t kTile = 128;          // places
constexpr std::int64_t kChannelsAtOnce = 8;  // of a chunk of the transpose
constexpr int kMostTaps = 4;                 // elements along an axis

// A place along an axis, in elements, and its derivative by the coordinate.
template <class T> struct AxisPlace { T at, slope; };

// Puts a place into the image, for border and reflection.
template <class T> AxisPlace<T> clipped(AxisPlace<T> place, std::int64_t size) {
  const T last = static_cast<T>(size - 1);
  if (!(place.at > 0)) return {T(0), T(0)};
  if (place.at >= last) return {last, T(0)};
  return place;
}
template <class T> AxisPlace<T> reflected(AxisPlace<T> place, std::int64_t size, bool align_corners) {
  const T low = align_corners ? T(0) : T(-0.5), span = static_cast<T>(align_corners ? size - 1 : size);
  if (span == 0) return {T(0), T(0)};
  T at = place.at - low, slope = place.slope;
  if (at < 0) at = -at, slope = -slope;
  const T rest = std::fmod(at, span), flips = std::floor(at / span);
  const bool back = std::fmod(flips, T(2)) != 0;
  return clipped(back ? AxisPlace<T>{span - rest + low, -slope} : AxisPlace<T>{rest + low, slope}, size);
}
template <class T> AxisPlace<T> padded(const GridProblem& p, AxisPlace<T> place, std::int64_t size) {
  if (p.padding == GridPadding::border) return clipped(place, size);
  if (p.padding == GridPadding::reflection) return reflected(place, size, p.align_corners);
  return place;
}

// Derivative number `order` of the four cubic weights (Keys, a = -0.75) at the fraction t.
template <class T> std::array<T, 4> cubic_weights(T t, int order) {
  constexpr T a = T(-0.75);
  // Cubic polynomials of a distance d, differentiated by it.
  const auto polynomial = [order](T d, T c3, T c2, T c1, T c0) {
    if (order == 0) return ((c3 * d + c2) * d + c1) * d + c0;
    if (order == 1) return (3 * c3 * d + 2 * c2) * d + c1;
    if (order == 2) return 6 * c3 * d + 2 * c2;
    return order == 3 ? 6 * c3 : T(0);
  };
  const auto far = [&](T d) { return polynomial(d, a, -5 * a, 8 * a, -4 * a); };
  const auto near = [&](T d) { return polynomial(d, a + 2, -(a + 3), T(0), T(1)); };
  const T sign = order % 2 ? T(-1) : T(1);  // distances of the last two fall as t grows
  return {far(t + 1), near(t), sign * near(1 - t), sign * far(2 - t)};
}

// The elements along an axis that one place needs: their indices, -1 outside of the image, and weights.
template <class T> struct Taps {
  std::array<std::int64_t, kMostTaps> index;
  std::array<T, kMostTaps> weight;
};

int taps_of(const GridProblem& p) {
  return p.mode == Interpolation::nearest ? 1 : p.mode == Interpolation::linear ? 2 : 4;
}

template <class T> T power(T base, int exponent) {
  T result(1);
  for (int i = 0; i < exponent; ++i) result *= base;
  return result;
}

template <class T>
void cubic_taps(const GridProblem& p, AxisPlace<T> place, std::int64_t size, int order, Taps<T>& taps) {
  const T middle = std::floor(place.at);
  const std::array<T, 4> weights = cubic_weights(place.at - middle, order);
  const T scale = power(place.slope, order);
  for (int k = 0; k < 4; ++k) {
    const auto i = static_cast<std::size_t>(k);
    const T at = padded(p, AxisPlace<T>{middle + static_cast<T>(k - 1), T(0)}, size).at;
    taps.index[i] = at >= 0 && at < static_cast<T>(size) ? static_cast<std::int64_t>(at) : -1;
    taps.weight[i] = weights[i] * scale;
  }
}

template <class T> Taps<T> axis_taps(const GridProblem& p, T coordinate, std::int64_t size, int order) {
  if (std::isnan(coordinate)) coordinate = T(-1);
  const T length = static_cast<T>(size);
  AxisPlace<T> place = p.align_corners ? AxisPlace<T>{(coordinate + 1) / 2 * (length - 1), (length - 1) / 2}
                                       : AxisPlace<T>{((coordinate + 1) * length - 1) / 2, length / 2};
  Taps<T> taps{};
  if (p.mode != Interpolation::cubic) place = padded(p, place, size);
  // A place far outside of the image has no element in it, and its index might not fit an integer.
  if (p.padding == GridPadding::zeros) place.at = std::clamp(place.at, T(-4), length + 3);
  if (!std::isfinite(place.at)) place = {T(0), T(0)};
  if (p.mode == Interpolation::cubic) {
    cubic_taps(p, place, size, order, taps);
    return taps;
  }
  const auto within = [size](std::int64_t i) { return i >= 0 && i < size ? i : std::int64_t{-1}; };
  if (p.mode == Interpolation::nearest) {
    taps.index[0] = within(static_cast<std::int64_t>(std::nearbyint(place.at)));
    taps.weight[0] = order == 0 ? T(1) : T(0);
    return taps;
  }
  const T low = std::floor(place.at), share = place.at - low;
  const auto first = static_cast<std::int64_t>(low);
  taps.index = {within(first), within(first + 1), -1, -1};
  if (order == 0) taps.weight = {1 - share, share, T(0), T(0)};
  if (order == 1) taps.weight = {-place.slope, place.slope, T(0), T(0)};
  return taps;
}

// Elements and weights of the places of a tile: those of number k are in row k.
template <class T> struct Tile {
  static constexpr int kMost = kMostTaps * kMostTaps;  // cubic has two axes, three axes have two taps each
  int count = 0;
  std::int64_t index[kMost][kTile];  // in a plane of the image; -1: outside
  T weight[kMost][kTile];

  void fill(const GridProblem& p, const std::array<std::int8_t, 3>& order, const T* grid, std::int64_t n) {
    const int taps = taps_of(p), depth = p.axes == 3 ? taps : 1;
    count = depth * taps * taps;
    for (std::int64_t i = 0; i < n; ++i) {
      const T* const at = grid + i * p.axes;
      const Taps<T> x = axis_taps(p, at[0], p.in[2], order[2]), y = axis_taps(p, at[1], p.in[1], order[1]);
      Taps<T> z{};
      z.weight[0] = T(1);
      if (p.axes == 3) z = axis_taps(p, at[2], p.in[0], order[0]);
      int row = 0;
      for (std::size_t a = 0; a < static_cast<std::size_t>(depth); ++a)
        for (std::size_t b = 0; b < static_cast<std::size_t>(taps); ++b)
          for (std::size_t c = 0; c < static_cast<std::size_t>(taps); ++c, ++row) {
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
