// Function objects of the C library's functions, for loops that call their vector versions: those of libmvec,
// within 4 units in the last place. The compiler uses these for any function that is declared `simd`, by the
// name of its symbol.
#pragma once

#include <cstdint>

#include "cpu/loops/map.h"

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

// UnaryRun and BinaryRun of a function object that apply vector code to all elements.
template <class T, class F> struct BlockRun {
  void operator()(const void* x, std::int64_t x_step, void* y, std::int64_t y_step, std::int64_t n) const {
    block_run(static_cast<const T*>(x), x_step, static_cast<T*>(y), y_step, n, F{});
  }
  void operator()(const void* a, std::int64_t a_step, const void* b, std::int64_t b_step, void* y,
                  std::int64_t y_step, std::int64_t n) const {
    block_run(static_cast<const T*>(a), a_step, static_cast<const T*>(b), b_step, static_cast<T*>(y), y_step,
              n, F{});
  }
};

// Kernels from a function object that is callable with float and double.
template <class F> void unary_block_kernel(const KernelContext&, const NDArray& x, const NDArray& y) {
  if (is_half(y.dtype())) return map_half(x, y, BlockRun<float, F>{});
  if (y.dtype() == DType::f64) return map_loop(x, y, BlockRun<double, F>{});
  map_loop(x, y, BlockRun<float, F>{});
}

template <class F>
void binary_block_kernel(const KernelContext&, const Operand& a, const Operand& b, const NDArray& y) {
  if (is_half(y.dtype())) return map_half(a, b, y, BlockRun<float, F>{});
  if (y.dtype() == DType::f64) return map_operands<double>(a, b, y, BlockRun<double, F>{});
  map_operands<float>(a, b, y, BlockRun<float, F>{});
}

}  // namespace heddle::cpu_kernels
