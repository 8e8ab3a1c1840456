// The step of sgd: the gradient, with momentum, which may look one step ahead.
// For kernels of the CPU and of GPUs: C++17, as nvcc compiles it. Names have internal linkage, as in the
// files of the CPU's kernels, which are compiled for several kinds of CPUs.
#pragma once

#include <cmath>

#include "families/optimizer/part_functors.h"

namespace heddle::functors {
namespace {

template <class T> struct SgdStep {
  enum Param { kLr, kMomentum, kNesterov, kWeightDecay };

  template <class Call>
  HEDDLE_FUNCTOR SgdStep(const Call& call, std::int64_t)
      : lr(static_cast<T>(call.lr)),
        scale(static_cast<T>(call.grad_scale)),
        momentum(static_cast<T>(call[kMomentum])),
        decay(static_cast<T>(call[kWeightDecay] * call.decay_scale)),
        nesterov(call[kNesterov] != 0) {}

  HEDDLE_FUNCTOR void operator()(const WeightPart<T>& part) const {
    const T rate = lr, factor = scale, share = momentum, shrink = decay;
    if (!part.state[0])
      return for_elements<0>(part, [=](T& w, T grad) { w -= rate * (grad * factor + shrink * w); });
    // Both kinds of momentum are gradient * a + velocity * b: no branch in the loop.
    const T a = nesterov ? T(1) : T(0), b = nesterov ? momentum : T(1);
    for_elements<1>(part, [=](T& w, T grad, T& velocity) {
      const T g = grad * factor + shrink * w;
      const T v = share * velocity + g;
      velocity = v;
      w -= rate * (a * g + b * v);
    });
  }

  T lr, scale, momentum, decay;
  bool nesterov;
};

}  // namespace
}  // namespace heddle::functors
