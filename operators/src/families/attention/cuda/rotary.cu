// Rotary embedding on GPUs: a table of the cosines and sines of each position, then one thread for each pair of features.
#include <cmath>

#include "families/attention/cuda/kernels.h"
#include "gpu/elements.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {
namespace {

// For each position half of its numbers are cosines, and half are sines. Angles are f64: f32 would lose those of large positions.
template <class T> struct Rotations {
  Rotary p;
  long long half;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < p.count * half; i += thread.global_size()) {
      const long long at = i / half, pair = i - at * half;
      const double frequency = std::pow(p.base, -static_cast<double>(pair) / static_cast<double>(half));
      const double angle = static_cast<double>(static_cast<const long long*>(p.positions)[at]) * frequency;
      const double sine = std::sin(angle);
      T* const table = static_cast<T*>(p.table) + at * 2 * half;
      table[pair] = static_cast<T>(std::cos(angle));
      table[half + pair] = static_cast<T>(p.backwards ? -sine : sine);
    }
  }
};

template <class T> struct Rotate {
  Rotary p;
  on_gpu::Layout<3> rows;  // of x, positions and y
  long long half;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < rows.count * half; i += thread.global_size()) {
      const long long row = i / half, pair = i - row * half;
      long long at[3];
      rows.locate(row, at);
      const T* const x = static_cast<const T*>(p.x) + at[0];
      const T* const table = static_cast<const T*>(p.table) + at[1] * 2 * half;
      T* const y = static_cast<T*>(p.y) + at[2];
      const long long first = p.interleaved ? 2 * pair : pair,
                      second = p.interleaved ? first + 1 : half + pair;
      const T a = x[first], b = x[second], cosine = table[pair], sine = table[half + pair];
      y[first] = a * cosine - b * sine;
      y[second] = b * cosine + a * sine;
    }
  }
};

template <class T> const char* launch_as(void* stream, const Rotary& p) {
  const auto native = static_cast<cudaStream_t>(stream);
  const long long half = p.features / 2;
  if (const char* const failed = on_gpu::launch_over(native, p.count * half, Rotations<T>{p, half}))
    return failed;
  long long y_steps[8] = {}, step = p.features;
  for (int axis = p.dims - 1; axis >= 0; --axis) {
    y_steps[axis] = step;
    step *= p.sizes[axis];
  }
  const long long* const strides[3] = {p.x_steps, p.position_steps, y_steps};
  const Rotate<T> kernel{p, on_gpu::make_layout<3>(p.dims, p.sizes, strides), half};
  return on_gpu::launch_over(native, kernel.rows.count * half, kernel);
}

}  // namespace

const char* launch_rotary(void* stream, const Rotary& p) {
  return on_gpu::Type{p.type} == on_gpu::Type::f64 ? launch_as<double>(stream, p)
                                                   : launch_as<float>(stream, p);
}

}  // namespace heddle::cuda_kernels
