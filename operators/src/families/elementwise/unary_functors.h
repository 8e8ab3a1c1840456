// Function objects of one operand, and of gradients, for kernels of the CPU and of GPUs: C++17, as nvcc compiles it. Names
// have internal linkage, as in the files of the CPU's kernels, which are compiled for several kinds of CPUs.
#pragma once

#include <cmath>

#include "core/functor.h"

namespace heddle::functors {
namespace {

struct Negative {
  template <class T> HEDDLE_FUNCTOR T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return -x;
    else
      return static_cast<T>(0 - static_cast<Wrapping<T>>(x));
  }
};

struct Abs {
  template <class T> HEDDLE_FUNCTOR T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::fabs(x);
    else if constexpr (std::is_signed_v<T>)
      return x < 0 ? Negative{}(x) : x;
    else
      return x;
  }
};

struct Square {
  template <class T> HEDDLE_FUNCTOR T operator()(T x) const {
    if constexpr (std::is_floating_point_v<T>)
      return x * x;
    else
      return static_cast<T>(static_cast<Wrapping<T>>(x) * static_cast<Wrapping<T>>(x));
  }
};

struct Relu {
  template <class T> HEDDLE_FUNCTOR T operator()(T x) const {
    if constexpr (std::is_unsigned_v<T>)
      return x;
    else
      return x < T{0} ? T{0} : x;  // NaN stays NaN
  }
};

struct Sqrt {
  template <class T> HEDDLE_FUNCTOR T operator()(T x) const { return std::sqrt(x); }
};

// Functions of kernels that compute a gradient in one op, from the gradient g of the result y.
struct AbsGradient {
  // The last case: x is 0 or NaN.
  template <class T> HEDDLE_FUNCTOR T operator()(T g, T x) const { return x > 0 ? g : x < 0 ? -g : x; }
};
struct SquareGradient {
  template <class T> HEDDLE_FUNCTOR T operator()(T g, T x) const { return 2 * g * x; }
};
struct ReluGradient {
  template <class T> HEDDLE_FUNCTOR T operator()(T g, T y) const {
    return y <= 0 ? T{0} : g;
  }  // g itself if y is NaN
};
struct SqrtGradient {
  template <class T> HEDDLE_FUNCTOR T operator()(T g, T y) const { return g / (2 * y); }
};
struct TanhGradient {
  template <class T> HEDDLE_FUNCTOR T operator()(T g, T y) const { return g * (1 - y * y); }
};
struct SigmoidGradient {
  template <class T> HEDDLE_FUNCTOR T operator()(T g, T y) const { return g * y * (1 - y); }
};

}  // namespace
}  // namespace heddle::functors
