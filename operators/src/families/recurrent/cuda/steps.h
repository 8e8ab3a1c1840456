// What the kernels of recurrent networks, forward and backward, share.
#pragma once

#include <cmath>
#include <type_traits>

#include "families/recurrent/cuda/kernels.h"
#include "gpu/elements.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {

// A number of a row: element n of the batch, or a row of all steps, and the column.
struct Number {
  long long row, column;
};
HEDDLE_DEVICE inline Number number_at(long long index, long long width) {
  if (index > 0x7fffffff || width > 0x7fffffff) return {index / width, index % width};
  const unsigned row = static_cast<unsigned>(index) / static_cast<unsigned>(width);
  return {row, static_cast<unsigned>(index) - row * static_cast<unsigned>(width)};
}

HEDDLE_DEVICE inline long long length_of(const Recurrence& r, long long n) {
  return r.lengths ? r.lengths[n] : r.steps;
}
HEDDLE_DEVICE inline long long place_of(const Recurrence& r, long long time, long long n) {
  return r.batch_first ? n * r.steps + time : time * r.batch + n;
}

// A step of an element.
struct Step {
  long long time, n, length;
  HEDDLE_DEVICE bool exists() const { return time < length; }
};
HEDDLE_DEVICE inline Step step_of_place(const Recurrence& r, long long place) {
  const long long inner = r.batch_first ? r.steps : r.batch;
  const Number at = number_at(place, inner);
  const long long n = r.batch_first ? at.row : at.column;
  return {r.batch_first ? at.column : at.row, n, length_of(r, n)};
}

// Number `u` of a state before a step: of rows `all` behind the steps, or of the initial state, where null is 0.
template <class T>
HEDDLE_DEVICE T state_before(const Recurrence& r, const Step& step, const void* first, const void* all,
                             long long width, long long u) {
  if (step.time == (r.reverse ? step.length - 1 : 0))
    return first ? static_cast<const T*>(first)[step.n * width + u] : T{0};
  const long long before = place_of(r, r.reverse ? step.time + 1 : step.time - 1, step.n);
  return static_cast<const T*>(all)[before * width + u];
}

// Writes an operand of products.
template <class T> HEDDLE_DEVICE void put_operand(const Recurrence& r, void* to, long long at, T value) {
  if constexpr (std::is_same_v<T, float>) {
    const on_gpu::Type type{r.operands};
    if (type == on_gpu::Type::f16) {
      static_cast<on_gpu::F16*>(to)[at] = on_gpu::narrow(value, on_gpu::F16{});
      return;
    }
    if (type == on_gpu::Type::bf16) {
      static_cast<on_gpu::BF16*>(to)[at] = on_gpu::narrow(value, on_gpu::BF16{});
      return;
    }
  }
  static_cast<T*>(to)[at] = value;
}

template <class T> HEDDLE_DEVICE T sigmoid_of(T x) { return T{1} / (T{1} + std::exp(-x)); }

// A kernel whose threads take numbers by turns: K::at(index) is what is done for one.
template <class K> struct Each {
  K body;
  long long count;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) body.at(i);
  }
};
template <class K> const char* launch_each(void* stream, long long count, const K& body) {
  if (count == 0) return nullptr;
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), count, Each<K>{body, count});
}

}  // namespace heddle::cuda_kernels
