// Applies a function object to each element of one or two arrays: the loop of most elementwise kernels.
#pragma once

#include <cstdint>
#include <type_traits>

#include <heddle/kernel_context.h>

#include "core/functor.h"
#include "cpu/loops/block_run.h"
#include "cpu/loops/map_half.h"
#include "cpu/loops/map_loop.h"
#include "cpu/words.h"

namespace heddle::cpu_kernels {

using functors::Wrapping;

// UnaryRun and BinaryRun for a function object F, with element types T of the operands and R of the result.
template <class T, class R, class F> struct MapRun {
  F function;

  // A copy of the function stays in registers. ivdep: y is x itself or does not overlap it, which the compiler cannot know.
  void operator()(const void* from, std::int64_t x_step, void* to, std::int64_t y_step,
                  std::int64_t n) const {
    const T* x = static_cast<const T*>(from);
    R* y = static_cast<R*>(to);
    const F f = function;
    if (x_step == 1 && y_step == 1) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
    } else if constexpr (InBlocks<F, T, R>) {
      block_run(x, x_step, y, y_step, n, f);
    } else {
      for (std::int64_t i = 0; i < n; ++i) y[i * y_step] = f(x[i * x_step]);
    }
  }

  // The binary run has separate loops for the cases that a or b is one value.
  void operator()(const void* left, std::int64_t a_step, const void* right, std::int64_t b_step, void* to,
                  std::int64_t y_step, std::int64_t n) const {
    const T *a = static_cast<const T*>(left), *b = static_cast<const T*>(right);
    R* y = static_cast<R*>(to);
    const F f = function;
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
};

template <class T, class R, class F> void map_unary(const NDArray& x, const NDArray& y, F f) {
  map_loop(x, y, MapRun<T, R, F>{f});
}

template <class T> T scalar_in(const Operand& operand) {
  return operand.is_array ? T{} : operand.scalar.as<T>();
}

// As map_loop, for a run on elements of type T.
template <class T> void map_operands(const Operand& a, const Operand& b, const NDArray& y, BinaryRun run) {
  const T left = scalar_in<T>(a), right = scalar_in<T>(b);
  map_loop(Source(a, &left), Source(b, &right), sizeof(T), y, run);
}

template <class T, class R, class F>
void map_binary(const Operand& a, const Operand& b, const NDArray& y, F f) {
  map_operands<T>(a, b, y, MapRun<T, R, F>{f});
}

// Unary and binary loops over arrays of half types, computed as float. R, the result of a step, is float or bool.
template <class R, class F> void map_half_unary(const NDArray& x, const NDArray& y, F f) {
  map_half(x, y, MapRun<float, R, F>{f});
}
template <class R, class F> void map_half_binary(const Operand& a, const Operand& b, const NDArray& y, F f) {
  map_half(a, b, y, MapRun<float, R, F>{f});
}

// Kernels from a function object. Those named "word" compile it for unsigned integers only (words.h), those
// named "floating" call it on floating types only, all others on every element type.
template <class F> void unary_kernel(const KernelContext&, const NDArray& x, const NDArray& y) {
  if (is_half(y.dtype())) return map_half_unary<float>(x, y, F{});
  visit_number(y.dtype(), [&]<class T> { map_unary<T, T>(x, y, F{}); });
}

template <class F> void unary_word_kernel(const KernelContext&, const NDArray& x, const NDArray& y) {
  if (is_half(y.dtype())) return map_half_unary<float>(x, y, F{});
  visit_word(y.dtype(), [&]<class T> { map_unary<T, T>(x, y, F{}); });
}

template <class F> void unary_floating_kernel(const KernelContext&, const NDArray& x, const NDArray& y) {
  if (is_half(y.dtype())) return map_half_unary<float>(x, y, F{});
  if (y.dtype() == DType::f64) return map_unary<double, double>(x, y, F{});
  map_unary<float, float>(x, y, F{});
}

template <class F>
void binary_kernel(const KernelContext&, const Operand& a, const Operand& b, const NDArray& y) {
  if (is_half(y.dtype())) return map_half_binary<float>(a, b, y, F{});
  visit_number(y.dtype(), [&]<class T> { map_binary<T, T>(a, b, y, F{}); });
}

template <class F>
void binary_word_kernel(const KernelContext&, const Operand& a, const Operand& b, const NDArray& y) {
  if (is_half(y.dtype())) return map_half_binary<float>(a, b, y, F{});
  visit_word(y.dtype(), [&]<class T> { map_binary<T, T>(a, b, y, F{}); });
}

// y is bool; the element type is the dtype of an operand that is an array.
template <class F>
void boolean_word_kernel(const KernelContext&, const Operand& a, const Operand& b, const NDArray& y) {
  const DType dtype = (a.is_array ? a : b).array.dtype();
  if (is_half(dtype)) return map_half_binary<bool>(a, b, y, F{});
  visit_word(dtype, [&]<class T> { map_binary<T, bool>(a, b, y, F{}); });
}

template <class F>
void binary_floating_kernel(const KernelContext&, const Operand& a, const Operand& b, const NDArray& y) {
  if (is_half(y.dtype())) return map_half_binary<float>(a, b, y, F{});
  if (y.dtype() == DType::f64) return map_binary<double, double>(a, b, y, F{});
  map_binary<float, float>(a, b, y, F{});
}

}  // namespace heddle::cpu_kernels
