// How the reductions whose results do not depend on the order join elements: all results are the CPU's bits, but for the sign of a
// largest or smallest 0.
#pragma once

#include <limits>

#include "gpu/elements.h"

namespace heddle::cuda_kernels {

using on_gpu::Type;
using Word = unsigned long long;  // integers whose sign makes no difference

HEDDLE_DEVICE inline Word load_word(const void* x, long long at, Type type) {
  const bool is_signed = type == Type::i8 || type == Type::i16 || type == Type::i32 || type == Type::i64;
  return is_signed ? static_cast<Word>(on_gpu::load<long long>(x, at, type))
                   : on_gpu::load<Word>(x, at, type);
}

// T: float, double, long long or Word. NaN if an element is.
template <class T> struct FoldExtreme {
  using Value = T;
  using Partial = T;
  bool largest;

  HEDDLE_DEVICE T load(const void* x, long long at, Type type) const { return on_gpu::load<T>(x, at, type); }
  HEDDLE_DEVICE T start() const {
    using Limits = std::numeric_limits<T>;
    if constexpr (Limits::has_infinity)
      return largest ? -Limits::infinity() : Limits::infinity();
    else
      return largest ? Limits::lowest() : Limits::max();
  }
  HEDDLE_DEVICE T take(T x, long long) const { return x; }
  HEDDLE_DEVICE T operator()(T a, T b) const {
    const bool better = largest ? b > a : b < a;
    return better || b != b ? b : a;
  }
  HEDDLE_DEVICE void finish(void* y, long long at, Type type, T best, long long) const {
    on_gpu::store(y, at, type, best);
  }
};

// The index of the largest or smallest element; of the first one among equals, and of the first NaN.
template <class T> struct FoldPlace {
  using Value = T;
  struct Partial {
    T value;
    long long index;  // -1: no element
  };
  bool largest;

  HEDDLE_DEVICE T load(const void* x, long long at, Type type) const { return on_gpu::load<T>(x, at, type); }
  HEDDLE_DEVICE Partial start() const { return {T{0}, -1}; }
  HEDDLE_DEVICE Partial take(T x, long long index) const { return {x, index}; }
  HEDDLE_DEVICE Partial operator()(const Partial& a, const Partial& b) const {
    if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
    const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
    if (a_is_nan || b_is_nan) {
      if (a_is_nan && b_is_nan) return a.index < b.index ? a : b;
      return a_is_nan ? a : b;
    }
    if (a.value == b.value) return a.index < b.index ? a : b;
    return (largest ? b.value > a.value : b.value < a.value) ? b : a;
  }
  HEDDLE_DEVICE void finish(void* y, long long at, Type, const Partial& best, long long) const {
    static_cast<long long*>(y)[at] = best.index;
  }
};

// Counts the elements that are not 0.
struct FoldNonzero {
  using Value = bool;
  using Partial = long long;
  enum Asks { any, all, count } asks;

  HEDDLE_DEVICE bool load(const void* x, long long at, Type type) const {
    switch (type) {
      case Type::f64:
        return static_cast<const double*>(x)[at] != 0;
      case Type::f32:
        return static_cast<const float*>(x)[at] != 0;
      case Type::f16:
      case Type::bf16:
        return (static_cast<const std::uint16_t*>(x)[at] & 0x7fff) != 0;
      default:
        return load_word(x, at, type) != 0;
    }
  }
  HEDDLE_DEVICE long long start() const { return 0; }
  HEDDLE_DEVICE long long take(bool nonzero, long long) const { return nonzero; }
  HEDDLE_DEVICE long long operator()(long long a, long long b) const { return a + b; }
  HEDDLE_DEVICE void finish(void* y, long long at, Type type, long long found, long long elements) const {
    const long long result = asks == any ? found > 0 : asks == all ? found == elements : found;
    on_gpu::store(y, at, type, result);
  }
};

}  // namespace heddle::cuda_kernels
