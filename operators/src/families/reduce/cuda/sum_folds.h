// How sums, means, products and norms join elements. Sums of f32 are f64. The order is fixed and not the CPU's.
#pragma once

#include <cmath>
#include <limits>

#include "families/reduce/cuda/folds.h"

namespace heddle::cuda_kernels {

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

}  // namespace heddle::cuda_kernels
