// Parts of a weight, on which a step of an optimizer works, for kernels of the CPU and of GPUs: C++17, as nvcc compiles it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/functor.h"

namespace heddle::functors {

constexpr std::size_t kMostState = 4;

// n elements of a weight, of the arrays of its state, and of the gradient.
template <class T> struct WeightPart {
  std::int64_t n;
  T* weight;
  T* state[kMostState];
  const T* grad;

  HEDDLE_FUNCTOR WeightPart at(std::int64_t begin, std::int64_t grad_begin, std::int64_t count) const {
    WeightPart part = *this;
    part.n = count;
    part.weight += begin;
    part.grad += grad_begin;
    for (T*& array : part.state) array = array ? array + begin : nullptr;
    return part;
  }
};

// Calls body(weight, gradient, state...) with references to each element of the part, and to those of its
// first arrays of state.
template <class T, class F, class... S>
HEDDLE_FUNCTOR void update_loop(std::int64_t n, const F& body, T* __restrict weight, const T* __restrict grad,
                                S* __restrict... state) {
  for (std::int64_t i = 0; i < n; ++i) body(weight[i], grad[i], state[i]...);
}
template <int kArrays, class T, class F>
HEDDLE_FUNCTOR void for_elements(const WeightPart<T>& part, const F& body) {
  static_assert(kArrays <= 3, "no step has more arrays of state");
  if constexpr (kArrays == 0)
    update_loop(part.n, body, part.weight, part.grad);
  else if constexpr (kArrays == 1)
    update_loop(part.n, body, part.weight, part.grad, part.state[0]);
  else if constexpr (kArrays == 2)
    update_loop(part.n, body, part.weight, part.grad, part.state[0], part.state[1]);
  else
    update_loop(part.n, body, part.weight, part.grad, part.state[0], part.state[1], part.state[2]);
}

// Sums of squares of the weight, and of its update or gradient.
struct Norms {
  double weight = 0, update = 0;
};

// The sum of term(0) to term(n - 1) in f64 in a fixed order: eight sums, which vectors add.
template <class Term> HEDDLE_FUNCTOR double sum_in_order(std::int64_t n, const Term& term) {
  constexpr int kLanes = 8;
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int k = 0; k < kLanes; ++k) lanes[k] += term(i + k);
  }
  for (int k = 0; i < n; ++i, ++k) lanes[k] += term(i);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace heddle::functors
