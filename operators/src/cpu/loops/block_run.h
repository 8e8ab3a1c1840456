// Loops over strided elements by way of contiguous buffers.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace heddle::cpu_kernels {

// A contiguous buffer of whole vectors for a loop without a scalar remainder, since the scalar version of a
// function may round differently than the vector version, and equal elements would give unequal results.
template <class T> struct VectorBuffer {
  static constexpr std::int64_t kVector = 64 / sizeof(T), kSize = 4096 / sizeof(T);
  alignas(64) T values[kSize];

  // Loads the next n elements, which are `step` apart, and pads with ones up to whole vectors. Returns the
  // padded number.
  std::int64_t load(const T* from, std::int64_t step, std::int64_t n) {
    if (step == 1) {
      std::memcpy(values, from, static_cast<std::size_t>(n) * sizeof(T));
    } else {
      for (std::int64_t k = 0; k < n; ++k) values[k] = from[k * step];
    }
    const std::int64_t whole = (n + kVector - 1) / kVector * kVector;
    for (std::int64_t k = n; k < whole; ++k) values[k] = T{1};
    return whole;
  }
  void store(T* to, std::int64_t step, std::int64_t n) const {
    if (step == 1) {
      std::memcpy(to, values, static_cast<std::size_t>(n) * sizeof(T));
    } else {
      for (std::int64_t k = 0; k < n; ++k) to[k * step] = values[k];
    }
  }
};

// y[i] = f(x[i]).
template <class T, class F>
[[gnu::noinline]] void block_run(const T* x, std::int64_t x_step, T* y, std::int64_t y_step, std::int64_t n,
                                 F f) {
  if (x_step == 1 && y_step == 1) {
    const std::int64_t whole = n / VectorBuffer<T>::kVector * VectorBuffer<T>::kVector;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < whole; ++i) y[i] = f(x[i]);
    x += whole, y += whole, n -= whole;
  }
  VectorBuffer<T> in, out;
  for (std::int64_t i = 0; i < n; i += in.kSize) {
    const std::int64_t size = n - i < in.kSize ? n - i : in.kSize;
    const std::int64_t whole = in.load(x + i * x_step, x_step, size);
    for (std::int64_t k = 0; k < whole; ++k) out.values[k] = f(in.values[k]);
    out.store(y + i * y_step, y_step, size);
  }
}

// y[i] = f(a[i], b[i]).
template <class T, class F>
[[gnu::noinline]] void block_run(const T* a, std::int64_t a_step, const T* b, std::int64_t b_step, T* y,
                                 std::int64_t y_step, std::int64_t n, F f) {
  if (a_step == 1 && y_step == 1 && (b_step == 1 || b_step == 0)) {
    const std::int64_t whole = n / VectorBuffer<T>::kVector * VectorBuffer<T>::kVector;
    const T fixed = *b;
    if (b_step == 0) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < whole; ++i) y[i] = f(a[i], fixed);
    } else {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < whole; ++i) y[i] = f(a[i], b[i]);
    }
    a += whole, b += whole * b_step, y += whole, n -= whole;
  }
  VectorBuffer<T> left, right, out;
  for (std::int64_t i = 0; i < n; i += left.kSize) {
    const std::int64_t size = n - i < left.kSize ? n - i : left.kSize;
    const std::int64_t whole = left.load(a + i * a_step, a_step, size);
    right.load(b + i * b_step, b_step, size);
    for (std::int64_t k = 0; k < whole; ++k) out.values[k] = f(left.values[k], right.values[k]);
    out.store(y + i * y_step, y_step, size);
  }
}

// Whether F has vector code for contiguous elements only.
template <class F, class T, class R>
concept InBlocks = std::is_same_v<T, R> && std::is_floating_point_v<T> && requires {
  F::kInBlocks;
};

}  // namespace heddle::cpu_kernels
