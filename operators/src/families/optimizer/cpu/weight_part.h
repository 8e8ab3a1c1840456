// Parts of a weight, on which a step of an optimizer works.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include <heddle/ndarray.h>

namespace heddle::cpu_kernels {

// Elements per chunk: enough to amortize passing the chunk to another worker, few enough for a cache.
constexpr std::int64_t kUpdateGrain = 16384;
constexpr std::size_t kMostState = 4;

// n elements of a weight, of the arrays of its state, and of the gradient.
template <class T> struct WeightPart {
  std::int64_t n;
  T* weight;
  std::array<T*, kMostState> state;
  const T* grad;

  WeightPart at(std::int64_t begin, std::int64_t grad_begin, std::int64_t count) const {
    WeightPart part{count, weight + begin, state, grad + grad_begin};
    for (T*& array : part.state) array = array ? array + begin : nullptr;
    return part;
  }
};

template <class T>
WeightPart<T> whole_weight(const NDArray& weight, std::span<const NDArray> state, const NDArray& grad) {
  WeightPart<T> all{weight.size(), weight.data<T>(), {}, grad.data<const T>()};
  for (std::size_t i = 0; i < state.size(); ++i) all.state[i] = state[i].data<T>();
  return all;
}

// Calls body(weight, gradient, state...) with references to each element of the part, and to those of its
// first arrays of state.
template <class T, class F, class... S>
void update_loop(std::int64_t n, const F& body, T* __restrict weight, const T* __restrict grad,
                 S* __restrict... state) {
  for (std::int64_t i = 0; i < n; ++i) body(weight[i], grad[i], state[i]...);
}
template <int kArrays, class T, class F> void for_elements(const WeightPart<T>& part, const F& body) {
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    update_loop(part.n, body, part.weight, part.grad, part.state[I]...);
  }
  (std::make_index_sequence<kArrays>());
}

// Sums of squares of the weight, and of its update or gradient.
struct Norms {
  double weight = 0, update = 0;
};

template <class T, template <class> class Step>
concept NormStep = requires(Step<T> step, const WeightPart<T>& part) {
  step.take(step.norms(part));
};

}  // namespace heddle::cpu_kernels
