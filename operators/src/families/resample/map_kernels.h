// What outputs of a resampling are made of along one axis, for the kernels of all devices.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "families/resample/kernels.h"

namespace heddle::resampling {
// What the outputs along one axis are made of: output i has the entries from begin[i] to begin[i + 1].
template <class T> struct AxisMap {
  std::vector<std::int64_t> begin{0}, index;
  std::vector<T> weight;
  bool identity = false;     // each output is the input in its place
  std::int64_t uniform = 0;  // the number of entries of each output, if all have as many; else 0

  std::int64_t outputs() const { return static_cast<std::int64_t>(begin.size()) - 1; }
  void add(std::int64_t i, T w) {
    index.push_back(i);
    weight.push_back(w);
  }
  void end_output() { begin.push_back(static_cast<std::int64_t>(index.size())); }
  std::int64_t count(std::int64_t i) const { return begin_of(i + 1) - begin_of(i); }
  std::int64_t begin_of(std::int64_t i) const { return begin[static_cast<std::size_t>(i)]; }
};

// The place of output element i among the elements of the input; PyTorch computes it in the dtype of the array, and so do these.
template <class T> struct AxisPlaces {
  AxisPlaces(const ResampleAxis& axis, bool corners) : align_corners(corners) {
    const T in = static_cast<T>(axis.in), out = static_cast<T>(axis.out);
    if (align_corners)
      step = axis.out > 1 ? (in - 1) / (out - 1) : T(0);
    else
      step = axis.step > 0 ? static_cast<T>(axis.step) : in / out;
  }
  T at(std::int64_t i) const {
    return align_corners ? step * static_cast<T>(i) : step * (static_cast<T>(i) + T(0.5)) - T(0.5);
  }
  T step;
  bool align_corners;
};

inline std::int64_t floor_place(double place) { return static_cast<std::int64_t>(std::floor(place)); }
// The element that the nearest modes copy. The place is rounded to f32 even for f64, as PyTorch does: a quotient a bit below an integer
// becomes that integer.
template <class T>
std::int64_t nearest_of(const ResampleAxis& axis, const AxisPlaces<T>& places, bool exact, std::int64_t i) {
  const T place = exact ? std::max(places.at(i), T(0)) + T(0.5) : places.step * static_cast<T>(i);
  return std::min(floor_place(static_cast<float>(place)), axis.in - 1);
}

template <class T> void add_linear(const ResampleAxis& axis, T place, AxisMap<T>& map) {
  place = std::max(place, T(0));
  const std::int64_t low = std::min(floor_place(place), axis.in - 1);
  const T share = std::clamp(place - static_cast<T>(low), T(0), T(1));
  map.add(low, 1 - share);
  map.add(std::min(low + 1, axis.in - 1), share);
}

template <class T> void add_cubic(const ResampleAxis& axis, T place, AxisMap<T>& map) {
  constexpr T a = T(-0.75);
  const std::int64_t middle = std::min(floor_place(place), axis.in - 1);
  const T t = std::clamp(place - static_cast<T>(middle), T(0), T(1));
  const auto near = [](T x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [](T x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  const std::array<T, 4> weights{far(t + 1), near(t), near(1 - t), far(2 - t)};
  for (std::int64_t k = 0; k < 4; ++k)
    map.add(std::clamp<std::int64_t>(middle + k - 1, 0, axis.in - 1), weights[static_cast<std::size_t>(k)]);
}

// A limit of the windows of area, i in / out as an integer and a rest: output i is the mean from its floor to the next one's ceil.
struct Boundary {
  void advance(const ResampleAxis& axis) {
    at += axis.in / axis.out;
    rest += axis.in % axis.out;
    if (rest < axis.out) return;
    rest -= axis.out;
    ++at;
  }
  std::int64_t at = 0, rest = 0;
};
template <class T> void add_area(const ResampleAxis& axis, Boundary& boundary, AxisMap<T>& map) {
  const std::int64_t from = boundary.at;
  boundary.advance(axis);
  const std::int64_t to = boundary.at + (boundary.rest > 0 ? 1 : 0);
  for (std::int64_t k = from; k < to; ++k) map.add(k, 1 / static_cast<T>(to - from));
}

template <class T> AxisMap<T> forward_map(const ResampleProblem& p, const ResampleAxis& axis) {
  const AxisPlaces<T> places(axis, p.align_corners);
  Boundary boundary;
  AxisMap<T> map;
  // As in PyTorch, linear interpolation copies an axis that keeps its size whatever the scale; nearest does not.
  const bool by_size = p.mode == Interpolation::linear || p.mode == Interpolation::area;
  map.identity = axis.in == axis.out && (by_size || (axis.step == 0 && p.mode != Interpolation::cubic));
  for (std::int64_t i = 0; i < axis.out; ++i) {
    switch (p.mode) {
      case Interpolation::nearest:
      case Interpolation::nearest_exact:
        map.add(nearest_of(axis, places, p.mode == Interpolation::nearest_exact, i), T(1));
        break;
      case Interpolation::linear:
        map.identity ? map.add(i, T(1)) : add_linear(axis, places.at(i), map);
        break;
      case Interpolation::cubic:
        add_cubic(axis, places.at(i), map);
        break;
      case Interpolation::area:
        add_area(axis, boundary, map);
        break;
    }
    map.end_output();
  }
  return map;
}

// The map by which gradients lead back to `inputs` elements. Entries of an input are in the order of the outputs.
template <class T> AxisMap<T> transposed_map(const AxisMap<T>& map, std::int64_t inputs) {
  AxisMap<T> back;
  back.identity = map.identity;
  back.begin.assign(static_cast<std::size_t>(inputs) + 1, 0);
  back.index.resize(map.index.size());
  back.weight.resize(map.index.size());
  for (const std::int64_t i : map.index) ++back.begin[static_cast<std::size_t>(i) + 1];
  for (std::size_t i = 1; i < back.begin.size(); ++i) back.begin[i] += back.begin[i - 1];
  std::vector<std::int64_t> next(back.begin.begin(), back.begin.end() - 1);
  for (std::int64_t o = 0; o < map.outputs(); ++o) {
    for (std::int64_t k = map.begin_of(o); k < map.begin_of(o + 1); ++k) {
      const auto from = static_cast<std::size_t>(k), input = static_cast<std::size_t>(map.index[from]);
      const auto to = static_cast<std::size_t>(next[input]++);
      back.index[to] = o;
      back.weight[to] = map.weight[from];
    }
  }
  return back;
}

template <class T> AxisMap<T> axis_map(const ResampleProblem& p, const ResampleAxis& axis) {
  AxisMap<T> map = forward_map<T>(p, axis);
  if (p.transposed) map = transposed_map(map, axis.in);
  map.uniform = map.count(0);
  for (std::int64_t i = 1; i < map.outputs(); ++i)
    if (map.count(i) != map.uniform) map.uniform = 0;
  return map;
}

}  // namespace heddle::resampling
