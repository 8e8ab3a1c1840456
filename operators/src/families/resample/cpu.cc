// The kernel of resampling. Along each axis an output element is a short list of input elements with weights. Axes are done one
// after the other, from the first: planes are added up to a plane, its rows to a row, the row's elements to elements.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/kernel_table.h"
#include "cpu/bits.h"
#include "cpu/floating.h"
#include "cpu/loops/chunks.h"
#include "cpu/scratch.h"
#include "families/resample/kernels.h"

namespace heddle::cpu_kernels {

namespace {

// What the outputs along one axis are made of: output i has the entries from begin[i] to begin[i + 1].
template <class T> struct AxisMap {
  std::vector<std::int64_t> begin{0};
  std::vector<std::int64_t> index;
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

std::int64_t floor_place(double place) { return static_cast<std::int64_t>(std::floor(place)); }

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

// The windows of area: output i is the mean of the inputs from floor(i in / out) to ceil((i + 1) in / out).
struct Boundary {  // i in / out, as an integer and a rest
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
  // As PyTorch: linear leaves an axis that keeps its size as it is, whatever scale was given; nearest does not.
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

// to[c] = the sum of weight[k] * from[index[k] * n + c] over `count` entries, in their order.
template <class T>
void add_lines(const T* from, const std::int64_t* index, const T* weight, std::int64_t count, std::int64_t n,
               T* __restrict to) {
  const auto line = [&](std::int64_t k) { return from + index[k] * n; };
  if (count == 0) return void(std::fill_n(to, n, T(0)));
  std::int64_t k = 1;
  if (count >= 4) {
    const T *a = line(0), *b = line(1), *c = line(2), *d = line(3);
    const T u = weight[0], v = weight[1], w = weight[2], z = weight[3];
    for (std::int64_t i = 0; i < n; ++i) to[i] = u * a[i] + v * b[i] + w * c[i] + z * d[i];
    k = 4;
  } else if (count >= 2) {
    const T *a = line(0), *b = line(1), u = weight[0], v = weight[1];
    for (std::int64_t i = 0; i < n; ++i) to[i] = u * a[i] + v * b[i];
    k = 2;
  } else {
    const T *a = line(0), u = weight[0];
    for (std::int64_t i = 0; i < n; ++i) to[i] = u * a[i];
  }
  for (; k < count; ++k) {
    const T *a = line(k), u = weight[k];
    for (std::int64_t i = 0; i < n; ++i) to[i] += u * a[i];
  }
}

// Each element of a line from `count` entries.
template <int count, class T> void gather_line(const AxisMap<T>& map, const T* from, T* __restrict to) {
  const std::int64_t n = map.outputs();
  const std::int64_t* const index = map.index.data();
  const T* const weight = map.weight.data();
  for (std::int64_t i = 0; i < n; ++i) {
    T sum = weight[i * count] * from[index[i * count]];
    for (int k = 1; k < count; ++k) sum += weight[i * count + k] * from[index[i * count + k]];
    to[i] = sum;
  }
}

template <class T> void resample_line(const AxisMap<T>& map, const T* from, T* __restrict to) {
  if (map.identity) return void(std::copy_n(from, map.outputs(), to));
  if (map.uniform == 1) return gather_line<1>(map, from, to);
  if (map.uniform == 2) return gather_line<2>(map, from, to);
  if (map.uniform == 4) return gather_line<4>(map, from, to);
  for (std::int64_t i = 0; i < map.outputs(); ++i) {
    T sum(0);
    for (std::int64_t k = map.begin_of(i); k < map.begin_of(i + 1); ++k)
      sum += map.weight[static_cast<std::size_t>(k)] * from[map.index[static_cast<std::size_t>(k)]];
    to[i] = sum;
  }
}

std::int64_t size_before(const ResampleProblem& p, std::size_t axis) {
  return p.transposed ? p.axes[axis].out : p.axes[axis].in;
}

// Elements that output i along an axis is made of: one that is in memory already, or a sum that is made in `memory`.
template <class T>
const T* lines_of(const AxisMap<T>& map, std::int64_t i, const T* from, std::int64_t n, T* memory) {
  if (map.identity) return from + i * n;
  const std::int64_t first = map.begin_of(i);
  add_lines(from, map.index.data() + first, map.weight.data() + first, map.count(i), n, memory);
  return memory;
}

template <class T> void resample_weighted(const ResampleProblem& p, const T* x, T* y) {
  const std::array<AxisMap<T>, 3> maps{axis_map<T>(p, p.axes[0]), axis_map<T>(p, p.axes[1]),
                                       axis_map<T>(p, p.axes[2])};
  const std::int64_t width = size_before(p, 2), plane = size_before(p, 1) * width,
                     volume = size_before(p, 0) * plane;
  const std::int64_t depths = maps[0].outputs(), rows = maps[1].outputs(), length = maps[2].outputs();
  const std::int64_t work =
      length + width * (maps[1].identity ? 0 : 1) + (maps[0].identity ? 0 : plane / rows);
  // A chunk has some rows of the output.
  parallel_chunks(
      p.planes * depths * rows, std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, work)),
      [&](std::int64_t begin, std::int64_t end) {
        const Scratch memory(static_cast<std::size_t>((maps[0].identity ? 0 : plane) + width) * sizeof(T));
        T *const of_row = memory.as<T>(), *const of_plane = of_row + width;
        const T* from = nullptr;
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int64_t i = row % rows, at = row / rows;
          if (i == 0 || row == begin)
            from = lines_of(maps[0], at % depths, x + at / depths * volume, plane, of_plane);
          resample_line(maps[2], lines_of(maps[1], i, from, width, of_row), y + row * length);
        }
      });
}

// The nearest modes copy elements of any type. Bits: the integer of their size.
template <class Bits>
void copy_nearest(const ResampleProblem& p, const std::array<std::vector<std::int64_t>, 3>& at, const Bits* x,
                  Bits* y) {
  const std::int64_t width = p.axes[2].in, plane = p.axes[1].in * width, volume = p.axes[0].in * plane;
  const std::int64_t depths = p.axes[0].out, rows = p.axes[1].out, length = p.axes[2].out;
  const std::int64_t* const columns = at[2].data();
  parallel_chunks(p.planes * depths * rows, std::max<std::int64_t>(1, kElementGrain / length),
                  [&](std::int64_t begin, std::int64_t end) {
                    const Bits* last = nullptr;
                    for (std::int64_t row = begin; row < end; ++row) {
                      const auto i = static_cast<std::size_t>(row % rows),
                                 d = static_cast<std::size_t>(row / rows % depths);
                      const Bits* const from =
                          x + row / rows / depths * volume + at[0][d] * plane + at[1][i] * width;
                      Bits* const to = y + row * length;
                      if (from == last) {
                        std::memcpy(to, to - length, static_cast<std::size_t>(length) * sizeof(Bits));
                      } else {
                        for (std::int64_t j = 0; j < length; ++j) to[j] = from[columns[j]];
                      }
                      last = from;
                    }
                  });
}

void resample_kernel(const KernelContext&, const ResampleProblem& p, const NDArray& x, const NDArray& y) {
  if (y.size() == 0) return;
  const bool nearest = p.mode == Interpolation::nearest || p.mode == Interpolation::nearest_exact;
  if (nearest && !p.transposed) {
    std::array<std::vector<std::int64_t>, 3> at;
    for (std::size_t i = 0; i < 3; ++i)
      at[i] = x.dtype() == DType::f64 ? forward_map<double>(p, p.axes[i]).index
                                      : forward_map<float>(p, p.axes[i]).index;
    return visit_bits(x.dtype(), [&]<class Bits>() {
      copy_nearest(p, at, reinterpret_cast<const Bits*>(x.data<const std::byte>()),
                   reinterpret_cast<Bits*>(y.data<std::byte>()));
    });
  }
  visit_floating(x.dtype(), [&]<class T>() { resample_weighted(p, x.data<const T>(), y.data<T>()); });
}

}  // namespace

HEDDLE_CPU_KERNELS(resample) { table.add<ResampleKernel>("resample", DeviceKind::cpu, resample_kernel); }

}  // namespace heddle::cpu_kernels
