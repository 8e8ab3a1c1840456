// The step of lars: sgd with momentum, whose gradient is scaled by the norms of weight and gradient.
// For kernels of the CPU and of GPUs: C++17, as nvcc compiles it. Names have internal linkage, as in the
// files of the CPU's kernels, which are compiled for several kinds of CPUs.
#pragma once

#include <cmath>

#include "families/optimizer/part_functors.h"

namespace heddle::functors {
namespace {

template <class T> struct LarsStep {
  enum Param { kLr, kMomentum, kNesterov, kTrust, kWeightDecay, kEpsilon };

  template <class Call>
  HEDDLE_FUNCTOR LarsStep(const Call& call, std::int64_t)
      : trust(call[kTrust]),
        epsilon(call[kEpsilon]),
        weight_decay(call[kWeightDecay] * call.decay_scale),
        lr(static_cast<T>(call.lr)),
        scale(static_cast<T>(call.grad_scale)),
        momentum(static_cast<T>(call[kMomentum])),
        decay(static_cast<T>(weight_decay)),
        nesterov(call[kNesterov] != 0) {}

  HEDDLE_FUNCTOR Norms norms(const WeightPart<T>& part) const {
    const T *w = part.weight, *grad = part.grad;
    const T factor = scale;
    return {sum_in_order(part.n, [=](std::int64_t i) { return static_cast<double>(w[i]) * w[i]; }),
            sum_in_order(part.n, [=](std::int64_t i) {
              const double g = grad[i] * factor;
              return g * g;
            })};
  }

  HEDDLE_FUNCTOR void take(const Norms& all) {
    const double weight = std::sqrt(all.weight), grad = std::sqrt(all.update);
    const bool both = weight > 0 && grad > 0;
    ratio = static_cast<T>(both ? trust * weight / (grad + weight_decay * weight + epsilon) : 1);
  }

  HEDDLE_FUNCTOR void operator()(const WeightPart<T>& part) const {
    const LarsStep s = *this;
    const T a = nesterov ? T(1) : T(0), b = nesterov ? momentum : T(1);
    for_elements<1>(part, [=](T& w, T grad, T& velocity) {
      const T g = s.ratio * (grad * s.scale + s.decay * w);
      velocity = s.momentum * velocity + g;
      w -= s.lr * (a * g + b * velocity);
    });
  }

  double trust, epsilon, weight_decay;
  T lr, scale, momentum, decay, ratio = 1;
  bool nesterov;
};

}  // namespace
}  // namespace heddle::functors
