// The elements of an image that a place needs along an axis, and their weights, for kernels of the CPU and of GPUs: C++17, as nvcc
// compiles it. Names have internal linkage, as in the files of the CPU's kernels, which are compiled for several kinds of CPUs.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/functor.h"

namespace heddle::functors {
namespace {

// What all axes have in common. `edge`: a GridPadding.
enum class GridEdge : std::uint8_t { zeros, border, reflection };
struct GridRule {
  GridEdge edge;
  bool align_corners;
};

// A place along an axis, in elements, and its derivative by the coordinate.
template <class T> struct AxisPlace { T at, slope; };

// Puts a place into the image, for border and reflection.
template <class T> HEDDLE_FUNCTOR AxisPlace<T> clipped(AxisPlace<T> place, std::int64_t size) {
  const T last = static_cast<T>(size - 1);
  if (!(place.at > 0)) return {T(0), T(0)};
  if (place.at >= last) return {last, T(0)};
  return place;
}
template <class T>
HEDDLE_FUNCTOR AxisPlace<T> reflected(AxisPlace<T> place, std::int64_t size, bool align_corners) {
  const T low = align_corners ? T(0) : T(-0.5), span = static_cast<T>(align_corners ? size - 1 : size);
  if (span == 0) return {T(0), T(0)};
  T at = place.at - low, slope = place.slope;
  if (at < 0) at = -at, slope = -slope;
  const T rest = std::fmod(at, span), flips = std::floor(at / span);
  const bool back = std::fmod(flips, T(2)) != 0;
  return clipped(back ? AxisPlace<T>{span - rest + low, -slope} : AxisPlace<T>{rest + low, slope}, size);
}
template <class T>
HEDDLE_FUNCTOR AxisPlace<T> padded(const GridRule& rule, AxisPlace<T> place, std::int64_t size) {
  if (rule.edge == GridEdge::border) return clipped(place, size);
  if (rule.edge == GridEdge::reflection) return reflected(place, size, rule.align_corners);
  return place;
}

// Derivative number `order` of a cubic polynomial of a distance d.
template <class T> HEDDLE_FUNCTOR T cubic(int order, T d, T c3, T c2, T c1, T c0) {
  if (order == 0) return ((c3 * d + c2) * d + c1) * d + c0;
  if (order == 1) return (3 * c3 * d + 2 * c2) * d + c1;
  if (order == 2) return 6 * c3 * d + 2 * c2;
  return order == 3 ? 6 * c3 : T(0);
}

// Derivative number `order` of the four cubic weights (Keys, a = -0.75) at the fraction t.
template <class T> HEDDLE_FUNCTOR std::array<T, 4> cubic_weights(T t, int order) {
  constexpr T a = T(-0.75);
  const auto far = [order](T d) { return cubic(order, d, a, -5 * a, 8 * a, -4 * a); };
  const auto near = [order](T d) { return cubic(order, d, a + 2, -(a + 3), T(0), T(1)); };
  const T sign = order % 2 ? T(-1) : T(1);  // distances of the last two fall as t grows
  return {far(t + 1), near(t), sign * near(1 - t), sign * far(2 - t)};
}

// The elements along an axis that one place needs: their indices, -1 outside of the image, and weights. One: the nearest;
// two: linear; four: cubic.
template <class T, int kTaps> struct Taps {
  std::array<std::int64_t, kTaps> index;
  std::array<T, kTaps> weight;
};

template <class T> HEDDLE_FUNCTOR T power(T base, int exponent) {
  T result(1);
  for (int i = 0; i < exponent; ++i) result *= base;
  return result;
}

template <class T>
HEDDLE_FUNCTOR Taps<T, 4> cubic_taps(const GridRule& rule, AxisPlace<T> place, std::int64_t size, int order) {
  const T middle = std::floor(place.at);
  const std::array<T, 4> weights = cubic_weights(place.at - middle, order);
  const T scale = power(place.slope, order);
  Taps<T, 4> taps{};
  for (std::size_t i = 0; i < 4; ++i) {
    const T at = padded(rule, AxisPlace<T>{middle + (static_cast<T>(i) - 1), T(0)}, size).at;
    taps.index[i] = at >= 0 && at < static_cast<T>(size) ? static_cast<std::int64_t>(at) : -1;
    taps.weight[i] = weights[i] * scale;
  }
  return taps;
}

// `order`: how often the weights are differentiated by the coordinate.
template <int kTaps, class T>
HEDDLE_FUNCTOR Taps<T, kTaps> axis_taps(const GridRule& rule, T coordinate, std::int64_t size, int order) {
  if (std::isnan(coordinate)) coordinate = T(-1);
  const T length = static_cast<T>(size);
  AxisPlace<T> place = rule.align_corners
                           ? AxisPlace<T>{(coordinate + 1) / 2 * (length - 1), (length - 1) / 2}
                           : AxisPlace<T>{((coordinate + 1) * length - 1) / 2, length / 2};
  if (kTaps != 4) place = padded(rule, place, size);
  // A place far outside of the image has no element in it, and its index might not fit an integer.
  if (rule.edge == GridEdge::zeros) place.at = std::clamp(place.at, T(-4), length + 3);
  if (!std::isfinite(place.at)) place = {T(0), T(0)};
  if constexpr (kTaps == 4) {
    return cubic_taps(rule, place, size, order);
  } else {
    const auto within = [size](std::int64_t i) { return i >= 0 && i < size ? i : std::int64_t{-1}; };
    Taps<T, kTaps> taps{};
    if constexpr (kTaps == 1) {
      taps.index[0] = within(static_cast<std::int64_t>(std::nearbyint(place.at)));
      taps.weight[0] = order == 0 ? T(1) : T(0);
    } else {
      const T low = std::floor(place.at), share = place.at - low;
      const auto first = static_cast<std::int64_t>(low);
      taps.index = {within(first), within(first + 1)};
      if (order == 0) taps.weight = {1 - share, share};
      if (order == 1) taps.weight = {-place.slope, place.slope};
    }
    return taps;
  }
}

}  // namespace
}  // namespace heddle::functors
