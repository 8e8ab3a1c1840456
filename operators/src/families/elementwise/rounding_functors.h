// Function objects of rounding, signs, classes of numbers and bits, for kernels of the CPU and of GPUs: C++17, as nvcc compiles it.
// Names have internal linkage, as in the files of the CPU's kernels, which are compiled for several kinds of CPUs.
#pragma once

#include <cmath>
#include <cstring>

#include "core/functor.h"

namespace heddle::functors {
namespace {

struct Floor {
  template <class T> HEDDLE_FUNCTOR T operator()(T x) const { return std::floor(x); }
};
struct Ceil {
  template <class T> HEDDLE_FUNCTOR T operator()(T x) const { return std::ceil(x); }
};
// The rounding mode is always to nearest, halves to even.
struct Round {
  template <class T> HEDDLE_FUNCTOR T operator()(T x) const { return std::nearbyint(x); }
};
struct Trunc {
  template <class T> HEDDLE_FUNCTOR T operator()(T x) const { return std::trunc(x); }
};
struct Sign {
  template <class T> HEDDLE_FUNCTOR T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>) {
      return x > 0 ? T{1} : x < 0 ? T{-1} : x == 0 ? T{0} : x;
    } else {
      return static_cast<T>((x > T{0}) - is_negative(x));
    }
  }
};

// Tests of the bits, since options of the compiler may assume that there are neither NaN nor infinities.
template <class T> using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
template <class T>
constexpr Bits<T> kInfinity = sizeof(T) == 4 ? Bits<T>{0x7f800000} : static_cast<Bits<T>>(0x7ffull << 52);
template <class T> HEDDLE_FUNCTOR Bits<T> float_bits(T x) {
  Bits<T> bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
template <class T> HEDDLE_FUNCTOR Bits<T> magnitude(T x) { return float_bits(x) << 1 >> 1; }

struct IsNan {
  template <class T> HEDDLE_FUNCTOR bool operator()(T x) const { return magnitude(x) > kInfinity<T>; }
};
struct IsInf {
  template <class T> HEDDLE_FUNCTOR bool operator()(T x) const { return magnitude(x) == kInfinity<T>; }
};
struct IsFinite {
  template <class T> HEDDLE_FUNCTOR bool operator()(T x) const { return magnitude(x) < kInfinity<T>; }
};
struct SignBit {
  template <class T> HEDDLE_FUNCTOR bool operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return magnitude(x) != float_bits(x);
    else
      return is_negative(x);
  }
};

struct Invert {
  template <class T> HEDDLE_FUNCTOR T operator()(T x) const {
    if constexpr (std::is_same_v<T, bool>)
      return !x;
    else
      return static_cast<T>(~x);
  }
};

struct Unchanged {
  template <class T> HEDDLE_FUNCTOR T operator()(T x) const { return x; }
};

}  // namespace
}  // namespace heddle::functors
