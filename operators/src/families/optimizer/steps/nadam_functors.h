// The step of nadam: adam with Nesterov's momentum, whose share rises with the number of updates.
// For kernels of the CPU and of GPUs: C++17, as nvcc compiles it. Names have internal linkage, as in the
// files of the CPU's kernels, which are compiled for several kinds of CPUs.
#pragma once

#include <cmath>

#include "families/optimizer/part_functors.h"

namespace heddle::functors {
namespace {

template <class T> struct NadamStep {
  enum Param { kLr, kBeta1, kBeta2, kEpsilon, kWeightDecay, kMomentumDecay, kDecoupled };

  template <class Call>
  HEDDLE_FUNCTOR NadamStep(const Call& call, std::int64_t updates)
      : scale(static_cast<T>(call.grad_scale)),
        epsilon(static_cast<T>(call[kEpsilon])),
        beta1(static_cast<T>(call[kBeta1])),
        beta2(static_cast<T>(call[kBeta2])),
        rest1(static_cast<T>(1 - call[kBeta1])),
        rest2(static_cast<T>(1 - call[kBeta2])) {
    const auto count = static_cast<double>(updates);
    const double decay = call[kWeightDecay] * call.decay_scale;
    const bool decoupled = call[kDecoupled] != 0;
    coupled = static_cast<T>(decoupled ? 0 : decay);
    keep = static_cast<T>(decoupled ? 1 - call.lr * decay : 1);
    unbias = static_cast<T>(1 / (1 - std::pow(call[kBeta2], count)));
    const auto momentum = [&](double step) {
      return call[kBeta1] * (1 - 0.5 * std::pow(0.96, step * call[kMomentumDecay]));
    };
    const double now = momentum(count), next = momentum(count + 1);
    const double product = momentum_product(call[kBeta1], call[kMomentumDecay], count);
    of_grad = static_cast<T>(call.lr * (1 - now) / (1 - product));
    of_mean = static_cast<T>(call.lr * next / (1 - product * next));
  }

  // The product of beta1 * (1 - 0.96^(i * decay) / 2) over i = 1 ... updates. The logarithm of each factor is a
  // series in powers of 1/2, whose terms are geometric sums over i: so the product needs no state of its own.
  HEDDLE_FUNCTOR static double momentum_product(double beta1, double decay, double updates) {
    double log_product = updates * std::log(beta1);
    if (log_product < -45) return 0;  // 1 minus the product rounds to 1
    const double log_ratio = decay * std::log(0.96);
    double power = 1;
    for (int k = 1; k <= 60; ++k) {
      power /= 2;
      const double ratio = k * log_ratio;
      const double sum =
          ratio == 0 ? updates : std::exp(ratio) * std::expm1(ratio * updates) / std::expm1(ratio);
      log_product -= power / k * sum;
    }
    return std::exp(log_product);
  }

  HEDDLE_FUNCTOR void operator()(const WeightPart<T>& part) const {
    const NadamStep s = *this;
    for_elements<2>(part, [s](T& w, T grad, T& mean, T& variance) {
      const T g = grad * s.scale + s.coupled * w;
      mean = s.beta1 * mean + s.rest1 * g;
      variance = s.beta2 * variance + s.rest2 * g * g;
      w = s.keep * w - (s.of_grad * g + s.of_mean * mean) / (std::sqrt(variance * s.unbias) + s.epsilon);
    });
  }

  T scale, epsilon, beta1, beta2, rest1, rest2, coupled, keep, unbias, of_grad, of_mean;
};

}  // namespace
}  // namespace heddle::functors
