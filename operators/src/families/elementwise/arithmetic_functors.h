// Function objects of arithmetic, for kernels of the CPU and of GPUs: C++17, as nvcc compiles it. Names
// have internal linkage, as in the files of the CPU's kernels, which are compiled for several kinds of CPUs.
#pragma once

#include <cmath>

#include "core/functor.h"

namespace heddle::functors {
namespace {

template <class T> inline constexpr bool is_real = std::is_floating_point_v<T>;
template <class T> inline constexpr bool is_bool = std::is_same_v<T, bool>;

struct Add {
  template <class T> HEDDLE_FUNCTOR T operator()(T a, T b) const {
    if constexpr (is_real<T>)
      return a + b;
    else if constexpr (is_bool<T>)
      return a || b;
    else
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};

struct Subtract {
  template <class T> HEDDLE_FUNCTOR T operator()(T a, T b) const {
    if constexpr (is_real<T>)
      return a - b;
    else
      return static_cast<T>(static_cast<Wrapping<T>>(a) - static_cast<Wrapping<T>>(b));
  }
};

struct Multiply {
  template <class T> HEDDLE_FUNCTOR T operator()(T a, T b) const {
    if constexpr (is_real<T>)
      return a * b;
    else if constexpr (is_bool<T>)
      return a && b;
    else
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};

struct Divide {
  template <class T> HEDDLE_FUNCTOR T operator()(T a, T b) const { return a / b; }
};

template <class T> HEDDLE_FUNCTOR T integer_power(T base, T exponent) {
  T result{1};
  for (auto rest = static_cast<Wrapping<T>>(exponent); rest; rest >>= 1) {
    if (rest & 1) result = Multiply{}(result, base);
    base = Multiply{}(base, base);
  }
  return result;
}

struct Power {
  template <class T> HEDDLE_FUNCTOR T operator()(T a, T b) const {
    if constexpr (is_real<T>)
      return std::pow(a, b);
    else if constexpr (is_bool<T>)
      return a || !b;
    else
      return integer_power(a, b);
  }
};

// NaN if a or b is NaN: a != a selects a NaN a, and a comparison with a NaN b is false, which selects b. |
// instead of ||: branches are slow with random numbers.
struct Maximum {
  static constexpr bool kInBlocks = true;
  template <class T> HEDDLE_FUNCTOR T operator()(T a, T b) const { return int{a > b} | int{a != a} ? a : b; }
};
struct Minimum {
  static constexpr bool kInBlocks = true;
  template <class T> HEDDLE_FUNCTOR T operator()(T a, T b) const { return int{a < b} | int{a != a} ? a : b; }
};

// The share of a in the gradient of maximum(a, b), or of minimum(a, b): half of it if they are equal. A NaN
// has all of it.
template <class F> struct Share {
  template <class T> HEDDLE_FUNCTOR T operator()(T a, T b) const {
    const bool a_nan = a != a, b_nan = b != b;
    if (a == b || (a_nan && b_nan)) return T{0.5};
    return a_nan || (!b_nan && F{}(a, b)) ? T{1} : T{0};
  }
};
// Halves before subtracting, since the difference may leave the range.
struct HalfDifference {
  template <class T> HEDDLE_FUNCTOR T operator()(T a, T b) const { return a * T{0.5} - b * T{0.5}; }
};

}  // namespace
}  // namespace heddle::functors
