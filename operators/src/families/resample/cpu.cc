// The kernel of resampling. Along each axis an output element is a short list of input elements with weights. Axes are done one
// after the other, from the first: planes are added up to a plane, its rows to a row, the row's elements to elements.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/kernel_table.h"
#include "cpu/bits.h"
#include "cpu/floating.h"
#include "cpu/loops/chunks.h"
#include "cpu/scratch.h"
#include "families/resample/map_kernels.h"

namespace heddle::cpu_kernels {

namespace {

using namespace resampling;

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
