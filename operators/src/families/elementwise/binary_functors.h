// Function objects of remainders, bits and neighbours, for kernels of the CPU and of GPUs: C++17, as nvcc compiles it. Names
// have internal linkage, as in the files of the CPU's kernels, which are compiled for several kinds of CPUs.
#pragma once

#include <cmath>

#include "core/functor.h"

namespace heddle::functors {
namespace {

// The quotient of integers: 0 for a divisor of 0, as in NumPy; the smallest number over -1 wraps around.
template <class T> HEDDLE_FUNCTOR T truncated_quotient(T a, T b) {
  if (b == T{0}) return T{0};
  if constexpr (std::is_signed_v<T>) {
    if (b == T{-1}) return static_cast<T>(0 - static_cast<Wrapping<T>>(a));
  }
  return static_cast<T>(a / b);
}
template <class T> HEDDLE_FUNCTOR T truncated_remainder(T a, T b) {
  if (b == T{0}) return T{0};
  if constexpr (std::is_signed_v<T>) {
    if (b == T{-1}) return T{0};
  }
  return static_cast<T>(a % b);
}
template <class T> HEDDLE_FUNCTOR bool rounds_up(T rest, T b) {
  return rest != T{0} && is_negative(rest) != is_negative(b);
}

// Python's divmod: the quotient follows from the remainder, which is exact.
template <class T> HEDDLE_FUNCTOR T floor_remainder(T a, T b) {
  const T rest = std::fmod(a, b);
  if (rounds_up(rest, b)) return rest + b;
  return rest == 0 ? std::copysign(T{0}, b) : rest;
}
template <class T> HEDDLE_FUNCTOR T floor_quotient(T a, T b) {
  if (b == 0) return a / b;
  const T rest = std::fmod(a, b);
  T quotient = (a - rest) / b;
  if (rounds_up(rest, b)) quotient -= 1;
  if (quotient == 0) return std::copysign(T{0}, a / b);
  const T whole = std::floor(quotient);
  return quotient - whole > T{0.5} ? whole + 1 : whole;
}

struct FloorDivide {
  template <class T> HEDDLE_FUNCTOR T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return floor_quotient(a, b);
    } else {
      const T quotient = truncated_quotient(a, b);
      return rounds_up(truncated_remainder(a, b), b) ? static_cast<T>(quotient - 1) : quotient;
    }
  }
};
struct Remainder {
  template <class T> HEDDLE_FUNCTOR T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return floor_remainder(a, b);
    } else {
      const T rest = truncated_remainder(a, b);
      return rounds_up(rest, b) ? static_cast<T>(rest + b) : rest;
    }
  }
};
struct Fmod {
  template <class T> HEDDLE_FUNCTOR T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::fmod(a, b);
    else
      return truncated_remainder(a, b);
  }
};

struct Copysign {
  template <class T> HEDDLE_FUNCTOR T operator()(T a, T b) const { return std::copysign(a, b); }
};
struct Nextafter {
  template <class T> HEDDLE_FUNCTOR T operator()(T a, T b) const { return std::nextafter(a, b); }
};
struct And {
  template <class T> HEDDLE_FUNCTOR T operator()(T a, T b) const { return static_cast<T>(a & b); }
};
struct Or {
  template <class T> HEDDLE_FUNCTOR T operator()(T a, T b) const { return static_cast<T>(a | b); }
};
struct Xor {
  template <class T> HEDDLE_FUNCTOR T operator()(T a, T b) const { return static_cast<T>(a ^ b); }
};

template <class T> constexpr int kWidth = static_cast<int>(8 * sizeof(T));
template <class T> HEDDLE_FUNCTOR bool keeps_bits(T by) {
  return !is_negative(by) && by < static_cast<T>(kWidth<T>);
}
struct LeftShift {
  template <class T> HEDDLE_FUNCTOR T operator()(T a, T by) const {
    return keeps_bits(by) ? static_cast<T>(static_cast<Wrapping<T>>(a) << by) : T{0};
  }
};
struct RightShift {
  template <class T> HEDDLE_FUNCTOR T operator()(T a, T by) const {
    return static_cast<T>(a >> (keeps_bits(by) ? static_cast<int>(by) : kWidth<T> - 1) >> !keeps_bits(by));
  }
};

}  // namespace
}  // namespace heddle::functors
