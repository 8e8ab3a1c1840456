// The step of adagrad: the gradient over the root of the sum of all squares so far.
// For kernels of the CPU and of GPUs: C++17, as nvcc compiles it. Names have internal linkage, as in the
// files of the CPU's kernels, which are compiled for several kinds of CPUs.
#pragma once

#include <cmath>

#include "families/optimizer/part_functors.h"

namespace heddle::functors {
namespace {

template <class T> struct AdagradStep {
  enum Param { kLr, kLrDecay, kWeightDecay, kInitial, kEpsilon };

  template <class Call>
  HEDDLE_FUNCTOR AdagradStep(const Call& call, std::int64_t updates)
      : scale(static_cast<T>(call.grad_scale)),
        decay(static_cast<T>(call[kWeightDecay] * call.decay_scale)),
        initial(static_cast<T>(call[kInitial])),
        epsilon(static_cast<T>(call[kEpsilon])),
        rate(static_cast<T>(call.lr / (1 + static_cast<double>(updates - 1) * call[kLrDecay]))) {}

  HEDDLE_FUNCTOR void operator()(const WeightPart<T>& part) const {
    const AdagradStep s = *this;
    for_elements<1>(part, [s](T& w, T grad, T& sum) {
      const T g = grad * s.scale + s.decay * w;
      sum += g * g;
      w -= s.rate * g / (std::sqrt(sum + s.initial) + s.epsilon);
    });
  }

  T scale, decay, initial, epsilon, rate;
};

}  // namespace
}  // namespace heddle::functors
