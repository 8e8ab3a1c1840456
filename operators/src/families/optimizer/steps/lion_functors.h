// The step of lion: the sign of a mean of gradients.
// For kernels of the CPU and of GPUs: C++17, as nvcc compiles it. Names have internal linkage, as in the
// files of the CPU's kernels, which are compiled for several kinds of CPUs.
#pragma once

#include <cmath>

#include "families/optimizer/part_functors.h"

namespace heddle::functors {
namespace {

template <class T> struct LionStep {
  enum Param { kLr, kBeta1, kBeta2, kWeightDecay };

  template <class Call>
  HEDDLE_FUNCTOR LionStep(const Call& call, std::int64_t)
      : lr(static_cast<T>(call.lr)),
        scale(static_cast<T>(call.grad_scale)),
        beta1(static_cast<T>(call[kBeta1])),
        beta2(static_cast<T>(call[kBeta2])),
        rest1(static_cast<T>(1 - call[kBeta1])),
        rest2(static_cast<T>(1 - call[kBeta2])),
        keep(static_cast<T>(1 - call.lr * call[kWeightDecay] * call.decay_scale)) {}

  HEDDLE_FUNCTOR void operator()(const WeightPart<T>& part) const {
    const LionStep s = *this;
    for_elements<1>(part, [s](T& w, T grad, T& mean) {
      const T g = grad * s.scale;
      const T c = s.beta1 * mean + s.rest1 * g;
      mean = s.beta2 * mean + s.rest2 * g;
      w = s.keep * w - s.lr * (c > 0 ? T(1) : c < 0 ? T(-1) : c);  // NaN stays NaN
    });
  }

  T lr, scale, beta1, beta2, rest1, rest2, keep;
};

}  // namespace
}  // namespace heddle::functors
