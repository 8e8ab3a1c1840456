// The kernel of rotary embedding.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include <heddle/parallel.h>

#include "core/kernel_table.h"
#include "cpu/floating.h"
#include "cpu/scratch.h"
#include "families/attention/kernels.h"

namespace heddle::cpu_kernels {
namespace {

constexpr std::int64_t kRotaryGrain = 16384;  // elements of a chunk

std::int64_t rotary_rows(std::int64_t elements) {
  return kRotaryGrain / std::max<std::int64_t>(1, elements) + 1;
}

// For each position `half` cosines and then `half` sines.
template <class T>
void fill_rotations(const RotaryProblem& problem, const NDArray& positions, std::int64_t half, T* table) {
  const std::int64_t* const position = positions.data<const std::int64_t>();
  parallel_for(positions.size(), rotary_rows(32 * half), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double frequency = std::pow(
          problem.base, -static_cast<double>(i) / static_cast<double>(std::max<std::int64_t>(1, half)));
      for (std::int64_t at = begin; at < end; ++at) {
        const double angle = static_cast<double>(position[at]) * frequency;
        table[at * 2 * half + i] = static_cast<T>(std::cos(angle));
        table[at * 2 * half + half + i] =
            static_cast<T>(problem.backwards ? -std::sin(angle) : std::sin(angle));
      }
    }
  });
}

template <class T>
void rotate(const T* x, const T* cosines, std::int64_t half, bool interleaved, T* __restrict y) {
  const T* const sines = cosines + half;
  if (interleaved) {
    for (std::int64_t i = 0; i < half; ++i) {
      const T a = x[2 * i], b = x[2 * i + 1];
      y[2 * i] = a * cosines[i] - b * sines[i];
      y[2 * i + 1] = b * cosines[i] + a * sines[i];
    }
    return;
  }
  for (std::int64_t i = 0; i < half; ++i) {
    const T a = x[i], b = x[half + i];
    y[i] = a * cosines[i] - b * sines[i];
    y[half + i] = b * cosines[i] + a * sines[i];
  }
}

template <class T>
void rotary(const RotaryProblem& problem, const NDArray& x, const NDArray& positions, const NDArray& y) {
  const int last = x.ndim() - 1;
  const std::int64_t features = x.shape()[last], half = features / 2, length = x.shape()[last - 1];
  const Scratch scratch(static_cast<std::size_t>(positions.size() * features) * sizeof(T));
  T* const table = scratch.as<T>();
  fill_rotations(problem, positions, half, table);
  const auto step_of = [&](int axis) { return positions.shape()[axis] == 1 ? 0 : positions.strides()[axis]; };
  const std::int64_t row_step = x.strides()[last - 1], position_step = step_of(last - 1);
  const T* const from = x.data<const T>();
  T* const to = y.data<T>();
  parallel_for(x.size() / features, rotary_rows(features), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end;) {
      std::int64_t at = row % length * row_step, position = row % length * position_step, rest = row / length;
      const std::int64_t rows = std::min(end - row, length - row % length);
      for (int axis = last - 2; axis >= 0; --axis) {
        at += rest % x.shape()[axis] * x.strides()[axis];
        position += rest % x.shape()[axis] * step_of(axis);
        rest /= x.shape()[axis];
      }
      for (std::int64_t i = 0; i < rows; ++i, ++row)
        rotate(from + at + i * row_step, table + (position + i * position_step) * features, half,
               problem.interleaved, to + row * features);
    }
  });
}

void rotary_kernel(const KernelContext&, const RotaryProblem& problem, const NDArray& x,
                   const NDArray& positions, const NDArray& y) {
  if (y.size() == 0) return;
  visit_floating(y.dtype(), [&]<class T>() { rotary<T>(problem, x, positions, y); });
}

}  // namespace

HEDDLE_CPU_KERNELS(rotary) { table.add<RotaryKernel>("rotary", DeviceKind::cpu, rotary_kernel); }

}  // namespace heddle::cpu_kernels
