// The step of lamb: a step of adamw whose norm is that of the weight.
// For kernels of the CPU and of GPUs: C++17, as nvcc compiles it. Names have internal linkage, as in the
// files of the CPU's kernels, which are compiled for several kinds of CPUs.
#pragma once

#include <cmath>

#include "families/optimizer/part_functors.h"

namespace heddle::functors {
namespace {

template <class T> struct LambStep {
  enum Param { kLr, kBeta1, kBeta2, kEpsilon, kWeightDecay };

  template <class Call>
  HEDDLE_FUNCTOR LambStep(const Call& call, std::int64_t updates)
      : lr(call.lr),
        scale(static_cast<T>(call.grad_scale)),
        epsilon(static_cast<T>(call[kEpsilon])),
        beta1(static_cast<T>(call[kBeta1])),
        beta2(static_cast<T>(call[kBeta2])),
        rest1(static_cast<T>(1 - call[kBeta1])),
        rest2(static_cast<T>(1 - call[kBeta2])),
        decay(static_cast<T>(call[kWeightDecay] * call.decay_scale)),
        mean_unbias(static_cast<T>(1 / (1 - std::pow(call[kBeta1], static_cast<double>(updates))))),
        unbias(static_cast<T>(1 / (1 - std::pow(call[kBeta2], static_cast<double>(updates))))) {}

  // The update of an element whose moments are up to date.
  HEDDLE_FUNCTOR T update(T w, T mean, T variance) const {
    return mean_unbias * mean / (std::sqrt(variance * unbias) + epsilon) + decay * w;
  }

  HEDDLE_FUNCTOR Norms norms(const WeightPart<T>& part) const {
    const LambStep s = *this;
    for_elements<2>(part, [s](T&, T grad, T& mean, T& variance) {
      const T g = grad * s.scale;
      mean = s.beta1 * mean + s.rest1 * g;
      variance = s.beta2 * variance + s.rest2 * g * g;
    });
    const T *w = part.weight, *mean = part.state[0], *variance = part.state[1];
    return {sum_in_order(part.n, [=](std::int64_t i) { return static_cast<double>(w[i]) * w[i]; }),
            sum_in_order(part.n, [=](std::int64_t i) {
              const double step = s.update(w[i], mean[i], variance[i]);
              return step * step;
            })};
  }

  HEDDLE_FUNCTOR void take(const Norms& all) {
    const bool both = all.weight > 0 && all.update > 0;
    rate = static_cast<T>(lr * (both ? std::sqrt(all.weight) / std::sqrt(all.update) : 1));
  }

  HEDDLE_FUNCTOR void operator()(const WeightPart<T>& part) const {
    const LambStep s = *this;
    for_elements<2>(part, [s](T& w, T, T& mean, T& variance) { w -= s.rate * s.update(w, mean, variance); });
  }

  double lr;
  T scale, epsilon, beta1, beta2, rest1, rest2, decay, mean_unbias, unbias, rate = 0;
};

}  // namespace
}  // namespace heddle::functors
