// How scans join elements. A type S defines it:
//   S::Value, S::Partial  the types in which an element is loaded, and in which elements are joined
//   kInOrder              whether elements have to be joined one after the other
//   load(x, at, type), start(), take(value, index), operator()(a, b)  as of reductions; `index` is that in the line
//   store(y, at, type, partial)
#pragma once

#include <limits>

#include "gpu/elements.h"

namespace heddle::cuda_kernels {

using on_gpu::Type;
using Word = unsigned long long;  // integers of 64 bits, which wrap around

// T: float, double or Word. Sums of f32 are f64.
template <class T> struct ScanNumbers {
  using Value = T;
  using Partial = std::conditional_t<std::is_same_v<T, float>, double, T>;
  HEDDLE_DEVICE T load(const void* x, long long at, Type) const { return static_cast<const T*>(x)[at]; }
  HEDDLE_DEVICE Partial take(T x, long long) const { return static_cast<Partial>(x); }
  HEDDLE_DEVICE void store(void* y, long long at, Type, Partial total) const {
    static_cast<T*>(y)[at] = static_cast<T>(total);
  }
};

template <class T> struct ScanSum : ScanNumbers<T> {
  using P = typename ScanNumbers<T>::Partial;
  static constexpr bool kInOrder = false;
  HEDDLE_DEVICE P start() const { return 0; }
  HEDDLE_DEVICE P operator()(P a, P b) const { return a + b; }
};

// A product of parts may be 0 times infinity where the product in order is 0 or infinity.
template <class T> struct ScanProduct : ScanNumbers<T> {
  using P = typename ScanNumbers<T>::Partial;
  static constexpr bool kInOrder = std::is_floating_point_v<T>;
  HEDDLE_DEVICE P start() const { return 1; }
  HEDDLE_DEVICE P operator()(P a, P b) const { return a * b; }
};

// T: float, double, long long or Word. The last one of equal elements, and the last NaN.
template <class T> struct ScanExtreme {
  using Value = T;
  struct Partial {
    T value;
    long long index;  // -1: no element
  };
  static constexpr bool kInOrder = false;
  bool largest;
  long long* indices;

  HEDDLE_DEVICE T load(const void* x, long long at, Type type) const { return on_gpu::load<T>(x, at, type); }
  HEDDLE_DEVICE Partial start() const { return {T{0}, -1}; }
  HEDDLE_DEVICE Partial take(T x, long long index) const { return {x, index}; }
  // a is of elements before those of b.
  HEDDLE_DEVICE Partial operator()(const Partial& a, const Partial& b) const {
    if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
    const bool replaces = largest ? b.value >= a.value : b.value <= a.value;
    return replaces || b.value != b.value ? b : a;
  }
  HEDDLE_DEVICE void store(void* y, long long at, Type type, const Partial& best) const {
    on_gpu::store(y, at, type, best.value);
    indices[at] = best.index;
  }
};

}  // namespace heddle::cuda_kernels
