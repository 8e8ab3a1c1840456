// Gradients of products along one line, on the CPU and on GPUs.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "core/scaled.h"

namespace heddle::functors {

// A sum of terms g[j] times products. To multiply the sum by a factor is not always the same as to multiply
// each term: a factor of infinity makes NaN of a term that is 0. Terms whose g is 0 are left out.
struct WeightedSum {
  Scaled sum;
  bool any = false, zero = false;  // whether the sum has terms, and whether one is 0

  HEDDLE_FUNCTOR void multiply(double factor) {
    sum.multiply(zero && std::isinf(factor) ? std::numeric_limits<double>::quiet_NaN() : factor);
    zero |= factor == 0;
  }
  HEDDLE_FUNCTOR void add(double term) {
    if (term == 0) return;
    sum.add(term);
    any = true;
  }
  HEDDLE_FUNCTOR double times(const Scaled& factor) const {
    if (!any) return 0;
    return zero && std::isinf(factor.value) ? std::numeric_limits<double>::quiet_NaN() : factor.times(sum);
  }
};

// The gradient of one line: element i gets the sum over j >= i of g[j] times the product of all x up to j but
// x[i]. That is the product of the elements before i, times a sum that element i + 1 extends by x[i + 1].
// Without divisions zeros need no special case.
template <class T>
HEDDLE_FUNCTOR void cumprod_gradient(const T* g, const T* x, T* y, std::int64_t length, std::int64_t step,
                                     WeightedSum* sums) {
  WeightedSum sum;
  for (std::int64_t i = length - 1; i >= 0; --i) {
    if (sum.any) sum.multiply(static_cast<double>(x[(i + 1) * step]));
    sum.add(static_cast<double>(g[i * step]));
    sums[i] = sum;
  }
  Scaled before{1, 0};
  for (std::int64_t i = 0; i < length; ++i) {
    y[i * step] = static_cast<T>(sums[i].times(before));
    before.multiply(static_cast<double>(x[i * step]));
  }
}

// For each element of one line, the product of the elements before it times that of those after it, without
// divisions.
template <class T>
HEDDLE_FUNCTOR void product_of_others(const T* x, T* y, std::int64_t length, std::int64_t step,
                                      Scaled* behind) {
  Scaled product{1, 0};
  for (std::int64_t i = length - 1; i >= 0; --i) {
    behind[i] = product;
    product.multiply(static_cast<double>(x[i * step]));
  }
  Scaled before{1, 0};
  for (std::int64_t i = 0; i < length; ++i) {
    y[i * step] = static_cast<T>(before.times(behind[i]));
    before.multiply(static_cast<double>(x[i * step]));
  }
}

}  // namespace heddle::functors
