// The step of adam and adamw: the mean of the gradients over the root of the mean of their squares.
// For kernels of the CPU and of GPUs: C++17, as nvcc compiles it. Names have internal linkage, as in the
// files of the CPU's kernels, which are compiled for several kinds of CPUs.
#pragma once

#include <cmath>

#include "families/optimizer/part_functors.h"

namespace heddle::functors {
namespace {

enum AdamParam { kAdamLr, kAdamBeta1, kAdamBeta2, kAdamEpsilon, kAdamWeightDecay, kAdamAmsgrad };

// decoupled: weight decay acts on the weight, not on the gradient.
template <class T, bool decoupled> struct AdamStep {
  template <class Call>
  HEDDLE_FUNCTOR AdamStep(const Call& call, std::int64_t updates)
      : scale(static_cast<T>(call.grad_scale)),
        epsilon(static_cast<T>(call[kAdamEpsilon])),
        beta1(static_cast<T>(call[kAdamBeta1])),
        beta2(static_cast<T>(call[kAdamBeta2])),
        rest1(static_cast<T>(1 - call[kAdamBeta1])),
        rest2(static_cast<T>(1 - call[kAdamBeta2])),
        rate(static_cast<T>(call.lr * (1 / (1 - std::pow(call[kAdamBeta1], static_cast<double>(updates)))))),
        unbias(static_cast<T>(1 / (1 - std::pow(call[kAdamBeta2], static_cast<double>(updates))))) {
    const double decay = call[kAdamWeightDecay] * call.decay_scale;
    coupled = static_cast<T>(decoupled ? 0 : decay);
    keep = static_cast<T>(decoupled ? 1 - call.lr * decay : 1);
  }

  HEDDLE_FUNCTOR void operator()(const WeightPart<T>& part) const {
    const AdamStep s = *this;
    if (part.state[2]) {
      return for_elements<3>(part, [s](T& w, T grad, T& mean, T& variance, T& most) {
        s.moments(w, grad, mean, variance);
        most = std::max(most, variance);
        w = s.keep * w - s.rate * mean / (std::sqrt(most * s.unbias) + s.epsilon);
      });
    }
    for_elements<2>(part, [s](T& w, T grad, T& mean, T& variance) {
      s.moments(w, grad, mean, variance);
      w = s.keep * w - s.rate * mean / (std::sqrt(variance * s.unbias) + s.epsilon);
    });
  }

  HEDDLE_FUNCTOR void moments(T w, T grad, T& mean, T& variance) const {
    const T g = grad * scale + coupled * w;
    mean = beta1 * mean + rest1 * g;
    variance = beta2 * variance + rest2 * g * g;
  }

  T scale, epsilon, beta1, beta2, rest1, rest2, rate, unbias, coupled, keep;
};

template <class T> using CoupledAdam = AdamStep<T, false>;
template <class T> using DecoupledAdam = AdamStep<T, true>;

}  // namespace
}  // namespace heddle::functors
