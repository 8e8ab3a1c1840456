// How the reductions join elements. Sums of f32 are f64. Sums and products of floating numbers are joined in a fixed order, which
// is not the CPU's; all other results are the CPU's bits, but for the sign of a largest or smallest 0.
#pragma once

#include <cmath>
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

// T: float, double or Word.
template <class T> struct Numbers {
  using Value = T;
  using Partial = std::conditional_t<std::is_same_v<T, float>, double, T>;
  HEDDLE_DEVICE T load(const void* x, long long at, Type type) const {
    if constexpr (std::is_same_v<T, Word>)
      return load_word(x, at, type);
    else
      return on_gpu::load<T>(x, at, type);
  }
  HEDDLE_DEVICE void finish(void* y, long long at, Type type, Partial total, long long) const {
    on_gpu::store(y, at, type, total);
  }
};

enum class Ends { total, mean, root };

template <class T> struct FoldSum : Numbers<T> {
  using Partial = typename Numbers<T>::Partial;
  bool squares = false;
  Ends ends = Ends::total;

  FoldSum() = default;
  FoldSum(bool squared, Ends end) : squares(squared), ends(end) {}
  HEDDLE_DEVICE Partial start() const { return 0; }
  HEDDLE_DEVICE Partial take(T x, long long) const {
    const Partial value = static_cast<Partial>(x);
    return squares ? value * value : value;
  }
  HEDDLE_DEVICE Partial operator()(Partial a, Partial b) const { return a + b; }
  HEDDLE_DEVICE void finish(void* y, long long at, Type type, Partial total, long long count) const {
    if constexpr (std::is_floating_point_v<Partial>) {
      if (ends == Ends::mean) total /= static_cast<Partial>(count);
      if (ends == Ends::root) total = std::sqrt(total);
    }
    on_gpu::store(y, at, type, total);
  }
};

template <class T> struct FoldProduct : Numbers<T> {
  using Partial = typename Numbers<T>::Partial;
  HEDDLE_DEVICE Partial start() const { return 1; }
  HEDDLE_DEVICE Partial take(T x, long long) const { return static_cast<Partial>(x); }
  HEDDLE_DEVICE Partial operator()(Partial a, Partial b) const { return a * b; }
};

// The mean and the norm of f64, whose sums may leave the range where the result does not: one sum is of the numbers, two are of
// the numbers times powers of 2.
struct FoldInRange {
  using Value = double;
  struct Partial {
    double plain, down, up;
  };
  bool root;

  HEDDLE_DEVICE double lowered() const { return root ? 0x1p-600 : 0x1p-64; }
  HEDDLE_DEVICE double load(const void* x, long long at, Type type) const {
    return on_gpu::load<double>(x, at, type);
  }
  HEDDLE_DEVICE Partial start() const { return {0, 0, 0}; }
  HEDDLE_DEVICE Partial take(double x, long long) const {
    const double down = x * lowered(), up = x * 0x1p600;
    return root ? Partial{x * x, down * down, up * up} : Partial{x, down, 0};
  }
  HEDDLE_DEVICE Partial operator()(const Partial& a, const Partial& b) const {
    return {a.plain + b.plain, a.down + b.down, a.up + b.up};
  }
  HEDDLE_DEVICE void finish(void* y, long long at, Type type, const Partial& total, long long count) const {
    double result;
    if (root) {
      result = std::sqrt(total.plain);
      if (result == std::numeric_limits<double>::infinity()) result = std::sqrt(total.down) * 0x1p600;
      if (result < 0x1p-480) result = std::sqrt(total.up) * 0x1p-600;
    } else {
      result = total.plain / static_cast<double>(count);
      if (!(std::fabs(result) <= std::numeric_limits<double>::max()))
        result = total.down / static_cast<double>(count) * 0x1p64;
    }
    on_gpu::store(y, at, type, result);
  }
};

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
