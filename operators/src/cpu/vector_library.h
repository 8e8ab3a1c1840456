// Functions of the C library as function objects, for loops that call their versions for vectors: those of libmvec, within
// 4 units in the last place. The compiler takes them for any function that is declared `simd`, by the name of its symbol.
#pragma once

#include <cstdint>

#include "cpu/map.h"

namespace heddle::cpu_kernels {

#define HEDDLE_VECTOR_FUNCTION(name)                                                                    \
  extern "C" [[gnu::const, gnu::simd("notinbranch")]] float vector_##name##f(float) __asm__(#name "f"); \
  extern "C" [[gnu::const, gnu::simd("notinbranch")]] double vector_##name(double) __asm__(#name);      \
  struct Vector_##name {                                                                                \
    float operator()(float x) const { return vector_##name##f(x); }                                     \
    double operator()(double x) const { return vector_##name(x); }                                      \
  };

#define HEDDLE_VECTOR_FUNCTION_OF_TWO(name)                                                                \
  extern "C"                                                                                               \
      [[gnu::const, gnu::simd("notinbranch")]] float vector_##name##f(float, float) __asm__(#name "f");    \
  extern "C" [[gnu::const, gnu::simd("notinbranch")]] double vector_##name(double, double) __asm__(#name); \
  struct Vector_##name {                                                                                   \
    float operator()(float a, float b) const { return vector_##name##f(a, b); }                            \
    double operator()(double a, double b) const { return vector_##name(a, b); }                            \
  };

template <class T, class F> void map_blocks(const NDArray& x, const NDArray& y, F f) {
  const StridedLoop<2> loop(y.shape(), {x.strides(), y.strides()});
  const auto steps = loop.inner_steps();
  const T* from = x.data<const T>();
  T* to = y.data<T>();
  loop.run(
      [&](const auto& at, std::int64_t n) { block_run(from + at[0], steps[0], to + at[1], steps[1], n, f); });
}

template <class T, class F> void map_blocks(const Operand& a, const Operand& b, const NDArray& y, F f) {
  const Source<T> left(a, y.shape()), right(b, y.shape());
  const StridedLoop<3> loop(y.shape(), {left.strides, right.strides, y.strides()});
  const auto steps = loop.inner_steps();
  T* to = y.data<T>();
  loop.run([&](const auto& at, std::int64_t n) {
    block_run(left.at(at[0]), steps[0], right.at(at[1]), steps[1], to + at[2], steps[2], n, f);
  });
}

// The kernels of a function object that is callable with float and double.
template <class F> void unary_block_kernel(const NDArray& x, const NDArray& y) {
  if (y.dtype() == DType::f64) return map_blocks<double>(x, y, F{});
  if (y.dtype() == DType::f32) return map_blocks<float>(x, y, F{});
  map_half(x, y, HalfUnary<float>([](const float* from, float* to, std::int64_t n) {
             block_run(from, 1, to, 1, n, F{});
           }));
}

template <class F> void binary_block_kernel(const Operand& a, const Operand& b, const NDArray& y) {
  if (y.dtype() == DType::f64) return map_blocks<double>(a, b, y, F{});
  if (y.dtype() == DType::f32) return map_blocks<float>(a, b, y, F{});
  map_half(a, b, y,
           HalfBinary<float>([](const float* left, std::int64_t left_step, const float* right,
                                std::int64_t right_step, float* to, std::int64_t n) {
             block_run(left, left_step, right, right_step, to, 1, n, F{});
           }));
}

}  // namespace heddle::cpu_kernels
