// The arrays of a weight as a part that has all its elements.
#pragma once

#include <cstdint>
#include <span>

#include <heddle/ndarray.h>

#include "families/optimizer/part_functors.h"

namespace heddle::cpu_kernels {

using functors::Norms, functors::WeightPart, functors::sum_in_order;

// Elements per chunk: enough to amortize passing the chunk to another worker, few enough for a cache.
constexpr std::int64_t kUpdateGrain = 16384;

template <class T>
WeightPart<T> whole_weight(const NDArray& weight, std::span<const NDArray> state, const NDArray& grad) {
  WeightPart<T> all{weight.size(), weight.data<T>(), {}, grad.data<const T>()};
  for (std::size_t i = 0; i < state.size(); ++i) all.state[i] = state[i].data<T>();
  return all;
}

template <class T, template <class> class Step>
concept NormStep = requires(Step<T> step, const WeightPart<T>& part) {
  step.take(step.norms(part));
};

}  // namespace heddle::cpu_kernels
