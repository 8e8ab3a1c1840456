// The step of adadelta: steps of the size of former steps.
// For kernels of the CPU and of GPUs: C++17, as nvcc compiles it. Names have internal linkage, as in the
// files of the CPU's kernels, which are compiled for several kinds of CPUs.
#pragma once

#include <cmath>

#include "families/optimizer/part_functors.h"

namespace heddle::functors {
namespace {

template <class T> struct AdadeltaStep {
  enum Param { kLr, kRho, kEpsilon, kWeightDecay };

  template <class Call>
  HEDDLE_FUNCTOR AdadeltaStep(const Call& call, std::int64_t)
      : lr(static_cast<T>(call.lr)),
        scale(static_cast<T>(call.grad_scale)),
        rho(static_cast<T>(call[kRho])),
        rest(static_cast<T>(1 - call[kRho])),
        epsilon(static_cast<T>(call[kEpsilon])),
        decay(static_cast<T>(call[kWeightDecay] * call.decay_scale)) {}

  HEDDLE_FUNCTOR void operator()(const WeightPart<T>& part) const {
    const AdadeltaStep s = *this;
    for_elements<2>(part, [s](T& w, T grad, T& variance, T& of_steps) {
      const T g = grad * s.scale + s.decay * w;
      variance = s.rho * variance + s.rest * g * g;
      const T step = std::sqrt(of_steps + s.epsilon) / std::sqrt(variance + s.epsilon) * g;
      of_steps = s.rho * of_steps + s.rest * step * step;
      w -= s.lr * step;
    });
  }

  T lr, scale, rho, rest, epsilon, decay;
};

}  // namespace
}  // namespace heddle::functors
