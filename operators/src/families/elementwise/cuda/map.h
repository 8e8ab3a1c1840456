// The kernel of elementwise operators on a GPU.
#pragma once

#include "families/elementwise/cuda/kernels.h"
#include "families/elementwise/cuda/packs.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {

// f on elements of type T with results of type R, which are y's elements as put() writes them.
template <class F, class T, class R, int N> struct Map {
  static constexpr int kPack =
      16 / sizeof(T);  // elements that a thread loads at once: 16 bytes, or 8 of halves

  on_gpu::Layout<N + 1> layout;
  const void* in[N];
  T numbers[N];
  void* out;
  Type type, result;
  bool flat;   // arrays are dense, in one order
  bool packs;  // also aligned, and y's elements have the size of T

  HEDDLE_DEVICE R call(const T (&x)[N]) const {
    if constexpr (N == 1)
      return F{}(x[0]);
    else if constexpr (N == 2)
      return F{}(x[0], x[1]);
    else
      return F{}(x[0], x[1], x[2]);
  }
  HEDDLE_DEVICE void element(long long i) const {
    long long at[N + 1];
    for (int k = 0; k <= N; ++k) at[k] = i;
    if (!flat) layout.locate(i, at);
    T x[N];
    for (int k = 0; k < N; ++k) x[k] = in[k] ? take<T>(in[k], at[k], type) : numbers[k];
    put<R>(out, at[N], result, call(x));
  }
  HEDDLE_DEVICE void pack(long long i) const {
    Pack<T, kPack> x[N];
    Pack<R, kPack> y;
    for (int k = 0; k < N; ++k) {
      if (in[k]) {
        x[k] = take_pack<T, kPack>(in[k], i, type);
      } else {
        for (int j = 0; j < kPack; ++j) x[k].values[j] = numbers[k];
      }
    }
    for (int j = 0; j < kPack; ++j) {
      T one[N];
      for (int k = 0; k < N; ++k) one[k] = x[k].values[j];
      y.values[j] = call(one);
    }
    put_pack<R, kPack>(out, i, result, y);
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    long long first = 0;
    if constexpr (sizeof(T) == sizeof(R) && !std::is_same_v<T, bool>) {
      if (packs) {
        const long long whole = layout.count / kPack;
        for (long long i = thread.global_index(); i < whole; i += thread.global_size()) pack(i);
        first = whole * kPack;
      }
    }
    for (long long i = first + thread.global_index(); i < layout.count; i += thread.global_size()) element(i);
  }
};

template <int N> on_gpu::Layout<N + 1> layout_of(const Elements& elements) {
  const long long* strides[N + 1];
  for (int k = 0; k < N; ++k) strides[k] = elements.in[k].strides;
  strides[N] = elements.out_strides;
  return on_gpu::make_layout<N + 1>(elements.dims, elements.sizes, strides);
}

template <class F, class T, class R, int N> const char* map(void* stream, const Elements& elements) {
  Map<F, T, R, N> kernel{};
  kernel.layout = layout_of<N>(elements);
  kernel.out = elements.out;
  kernel.type = Type{elements.dtype};
  kernel.result = Type{elements.result};
  const int bytes = on_gpu::size_of(kernel.type), result_bytes = on_gpu::size_of(kernel.result);
  auto together = reinterpret_cast<unsigned long long>(elements.out);
  const auto& layout = kernel.layout;
  kernel.flat = layout.dims == 1 && layout.steps[0][N] == 1;
  for (int k = 0; k < N; ++k) {
    const Source& source = elements.in[k];
    kernel.in[k] = source.data;
    if (source.data) {
      together |= reinterpret_cast<unsigned long long>(source.data);
      kernel.flat &= layout.steps[0][k] == 1;
    } else if constexpr (std::is_same_v<T, float>) {
      memcpy(&kernel.numbers[k], source.number, sizeof(T));  // halves are given as float
    } else {
      memcpy(&kernel.numbers[k], source.number, sizeof(T));
    }
  }
  const bool halves = std::is_same_v<T, float> && std::is_same_v<R, float> && bytes == 2 && result_bytes == 2;
  const bool whole_type = bytes == sizeof(T) && result_bytes == sizeof(R);
  kernel.packs = kernel.flat && (halves ? together % 8 == 0 : whole_type && together % 16 == 0);
  const long long threads = kernel.packs ? layout.count / kernel.kPack + kernel.kPack : layout.count;
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), threads, kernel);
}

}  // namespace heddle::cuda_kernels
