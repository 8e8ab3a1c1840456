// Applies a function object to each element of one or two arrays: the loop of most elementwise kernels.
#pragma once

#include <cstdint>
#include <type_traits>

#include <heddle/elementwise.h>

#include "cpu/block_run.h"
#include "cpu/map_half.h"
#include "cpu/strided_loop.h"
#include "cpu/words.h"

namespace heddle::cpu_kernels {

// The type in which integers are computed, at least 32 bits and unsigned. NumPy's integers wrap around. That is
// undefined for C++'s signed integers, and for small unsigned ones too, because they are promoted to int.
template <class T>
using Wrapping = std::make_unsigned_t<std::conditional_t<sizeof(T) <= 4, std::int32_t, std::int64_t>>;

// An operand as a kernel reads it: a scalar is the value at every index.
template <class T> struct Source {
  explicit Source(const Operand& operand, const Shape& shape)
      : value(operand.is_array ? T{} : operand.scalar.as<T>()),
        data(operand.is_array ? elements<T>(operand.array) : nullptr),
        strides(operand.is_array ? operand.array.strides() : Strides::filled(shape.size(), 0)) {}

  const T* at(std::int64_t offset) const { return data ? data + offset : &value; }

  T value;
  const T* data;
  Strides strides;
};

// y[i] = f(x[i]). ivdep: y is x itself or does not overlap it, which the compiler cannot know. Not inlined, so that f32
// and the half types share one loop.
template <class T, class R, class F>
[[gnu::noinline]] void map_run(const T* x, std::int64_t x_step, R* y, std::int64_t y_step, std::int64_t n,
                               F f) {
  if (x_step == 1 && y_step == 1) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
  } else if constexpr (InBlocks<F, T, R>) {
    block_run(x, x_step, y, y_step, n, f);
  } else {
    for (std::int64_t i = 0; i < n; ++i) y[i * y_step] = f(x[i * x_step]);
  }
}

// y[i] = f(a[i], b[i]), with a loop of its own for the case that a or b is one value.
template <class T, class R, class F>
[[gnu::noinline]] void map_run(const T* a, std::int64_t a_step, const T* b, std::int64_t b_step, R* y,
                               std::int64_t y_step, std::int64_t n, F f) {
  if (y_step == 1 && a_step == 1 && b_step == 1) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
  } else if (y_step == 1 && a_step == 1 && b_step == 0) {
    const T fixed = *b;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) y[i] = f(a[i], fixed);
  } else if (y_step == 1 && a_step == 0 && b_step == 1) {
    const T fixed = *a;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) y[i] = f(fixed, b[i]);
  } else if constexpr (InBlocks<F, T, R>) {
    block_run(a, a_step, b, b_step, y, y_step, n, f);
  } else {
    for (std::int64_t i = 0; i < n; ++i) y[i * y_step] = f(a[i * a_step], b[i * b_step]);
  }
}

template <class T, class R, class F> void map_unary(const NDArray& x, const NDArray& y, F f) {
  const StridedLoop<2> loop(y.shape(), {x.strides(), y.strides()});
  const auto [x_step, y_step] = loop.inner_steps();
  const T* from = elements<T>(x);
  R* to = writable_elements<R>(y);
  loop.run([&, x_step = x_step, y_step = y_step](const auto& at, std::int64_t n) {
    map_run(from + at[0], x_step, to + at[1], y_step, n, f);
  });
}

template <class T, class R, class F>
void map_binary(const Operand& a, const Operand& b, const NDArray& y, F f) {
  const Source<T> left(a, y.shape()), right(b, y.shape());
  const StridedLoop<3> loop(y.shape(), {left.strides, right.strides, y.strides()});
  const auto steps = loop.inner_steps();
  R* to = writable_elements<R>(y);
  loop.run([&](const auto& at, std::int64_t n) {
    map_run(left.at(at[0]), steps[0], right.at(at[1]), steps[1], to + at[2], steps[2], n, f);
  });
}

// map_unary and map_binary of half types. R is float or bool.
template <class R, class F> void map_half_unary(const NDArray& x, const NDArray& y, F f) {
  map_half(x, y,
           HalfUnary<R>([f](const float* from, R* to, std::int64_t n) { map_run(from, 1, to, 1, n, f); }));
}

template <class R, class F> void map_half_binary(const Operand& a, const Operand& b, const NDArray& y, F f) {
  map_half(a, b, y,
           HalfBinary<R>([f](const float* left, std::int64_t left_step, const float* right,
                             std::int64_t right_step, R* to,
                             std::int64_t n) { map_run(left, left_step, right, right_step, to, 1, n, f); }));
}

// Kernels made of a function object that is callable with any element type, or with floating ones alone.
template <class F> void unary_kernel(const NDArray& x, const NDArray& y) {
  if (is_half(y.dtype())) return map_half_unary<float>(x, y, F{});
  visit_number(y.dtype(), [&]<class T> { map_unary<T, T>(x, y, F{}); });
}

template <class F> void unary_word_kernel(const NDArray& x, const NDArray& y) {
  if (is_half(y.dtype())) return map_half_unary<float>(x, y, F{});
  visit_word(y.dtype(), [&]<class T> { map_unary<T, T>(x, y, F{}); });
}

template <class F> void unary_floating_kernel(const NDArray& x, const NDArray& y) {
  if (is_half(y.dtype())) return map_half_unary<float>(x, y, F{});
  if (y.dtype() == DType::f64) return map_unary<double, double>(x, y, F{});
  map_unary<float, float>(x, y, F{});
}

template <class F> void binary_kernel(const Operand& a, const Operand& b, const NDArray& y) {
  if (is_half(y.dtype())) return map_half_binary<float>(a, b, y, F{});
  visit_number(y.dtype(), [&]<class T> { map_binary<T, T>(a, b, y, F{}); });
}

template <class F> void binary_word_kernel(const Operand& a, const Operand& b, const NDArray& y) {
  if (is_half(y.dtype())) return map_half_binary<float>(a, b, y, F{});
  visit_word(y.dtype(), [&]<class T> { map_binary<T, T>(a, b, y, F{}); });
}

// y is bool: the element type is that of whichever operand is an array.
template <class F> void boolean_word_kernel(const Operand& a, const Operand& b, const NDArray& y) {
  const DType dtype = (a.is_array ? a : b).array.dtype();
  if (is_half(dtype)) return map_half_binary<bool>(a, b, y, F{});
  visit_word(dtype, [&]<class T> { map_binary<T, bool>(a, b, y, F{}); });
}

template <class F> void binary_floating_kernel(const Operand& a, const Operand& b, const NDArray& y) {
  if (is_half(y.dtype())) return map_half_binary<float>(a, b, y, F{});
  if (y.dtype() == DType::f64) return map_binary<double, double>(a, b, y, F{});
  map_binary<float, float>(a, b, y, F{});
}

}  // namespace heddle::cpu_kernels
