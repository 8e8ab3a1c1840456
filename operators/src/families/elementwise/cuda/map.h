// The kernel of elementwise operators on a GPU.
#pragma once

#include "families/elementwise/cuda/kernels.h"
#include "gpu/elements.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {

using on_gpu::Type;

// take() loads an element, put() stores one. f16 and bf16 are computed as float.
template <class T> HEDDLE_DEVICE T take(const void* from, long long at, Type type) {
  if constexpr (std::is_same_v<T, float>)
    return on_gpu::load<float>(from, at, type);
  else if constexpr (std::is_same_v<T, bool>)
    return static_cast<const unsigned char*>(from)[at] != 0;
  else
    return static_cast<const T*>(from)[at];
}
template <class R> HEDDLE_DEVICE void put(void* to, long long at, Type type, R value) {
  if constexpr (std::is_same_v<R, float>) {
    if (type == Type::f16)
      static_cast<on_gpu::F16*>(to)[at] = on_gpu::narrow(value, on_gpu::F16{});
    else if (type == Type::bf16)
      static_cast<on_gpu::BF16*>(to)[at] = on_gpu::narrow(value, on_gpu::BF16{});
    else
      static_cast<float*>(to)[at] = value;
  } else {
    static_cast<R*>(to)[at] = value;
  }
}

template <class T, int count> struct alignas(sizeof(T) * count) Pack { T values[count]; };

HEDDLE_DEVICE inline float widened(std::uint16_t bits, Type type) {
  return type == Type::f16 ? on_gpu::widen(on_gpu::F16{bits}) : on_gpu::widen(on_gpu::BF16{bits});
}
HEDDLE_DEVICE inline std::uint16_t narrowed(float value, Type type) {
  return type == Type::f16 ? on_gpu::narrow(value, on_gpu::F16{}).bits
                           : on_gpu::narrow(value, on_gpu::BF16{}).bits;
}

// Pack i of an array of elements that are computed as T, and of one of results.
template <class T, int count>
HEDDLE_DEVICE Pack<T, count> take_pack(const void* from, long long i, Type type) {
  if constexpr (std::is_same_v<T, float>) {
    if (type == Type::f16 || type == Type::bf16) {
      const auto halves = static_cast<const Pack<std::uint16_t, count>*>(from)[i];
      Pack<T, count> pack;
      for (int j = 0; j < count; ++j) pack.values[j] = widened(halves.values[j], type);
      return pack;
    }
  }
  return static_cast<const Pack<T, count>*>(from)[i];
}
template <class R, int count>
HEDDLE_DEVICE void put_pack(void* to, long long i, Type type, const Pack<R, count>& pack) {
  if constexpr (std::is_same_v<R, float>) {
    if (type == Type::f16 || type == Type::bf16) {
      Pack<std::uint16_t, count> halves;
      for (int j = 0; j < count; ++j) halves.values[j] = narrowed(pack.values[j], type);
      static_cast<Pack<std::uint16_t, count>*>(to)[i] = halves;
      return;
    }
  }
  static_cast<Pack<R, count>*>(to)[i] = pack;
}

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
