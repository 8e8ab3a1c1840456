// The step of rmsprop: the gradient over the root of the mean of its squares, or of its variance, with momentum.
// For kernels of the CPU and of GPUs: C++17, as nvcc compiles it. Names have internal linkage, as in the
// files of the CPU's kernels, which are compiled for several kinds of CPUs.
#pragma once

#include <cmath>

#include "families/optimizer/part_functors.h"

namespace heddle::functors {
namespace {

template <class T> struct RmspropStep {
  enum Param { kLr, kAlpha, kEpsilon, kWeightDecay, kMomentum, kCentered };

  template <class Call>
  HEDDLE_FUNCTOR RmspropStep(const Call& call, std::int64_t)
      : lr(static_cast<T>(call.lr)),
        scale(static_cast<T>(call.grad_scale)),
        alpha(static_cast<T>(call[kAlpha])),
        rest(static_cast<T>(1 - call[kAlpha])),
        epsilon(static_cast<T>(call[kEpsilon])),
        decay(static_cast<T>(call[kWeightDecay] * call.decay_scale)),
        momentum(static_cast<T>(call[kMomentum])),
        centered(call[kCentered] != 0) {}

  // The gradient over its root.
  HEDDLE_FUNCTOR T plain(T w, T grad, T& variance) const {
    const T g = grad * scale + decay * w;
    variance = alpha * variance + rest * g * g;
    return g / (std::sqrt(variance) + epsilon);
  }
  // Rounding may make a variance of about 0 negative.
  HEDDLE_FUNCTOR T around_mean(T w, T grad, T& variance, T& mean) const {
    const T g = grad * scale + decay * w;
    variance = alpha * variance + rest * g * g;
    mean = alpha * mean + rest * g;
    return g / (std::sqrt(std::max(variance - mean * mean, T(0))) + epsilon);
  }

  HEDDLE_FUNCTOR void operator()(const WeightPart<T>& part) const {
    const RmspropStep s = *this;
    const auto along = [s](T& w, T& velocity, T step) {
      velocity = s.momentum * velocity + step;
      w -= s.lr * velocity;
    };
    if (momentum > 0 && centered) {
      for_elements<3>(part, [=](T& w, T grad, T& variance, T& mean, T& velocity) {
        along(w, velocity, s.around_mean(w, grad, variance, mean));
      });
    } else if (momentum > 0) {
      for_elements<2>(part, [=](T& w, T grad, T& variance, T& velocity) {
        along(w, velocity, s.plain(w, grad, variance));
      });
    } else if (centered) {
      for_elements<2>(part, [=](T& w, T grad, T& variance, T& mean) {
        w -= s.lr * s.around_mean(w, grad, variance, mean);
      });
    } else {
      for_elements<1>(part, [=](T& w, T grad, T& variance) { w -= s.lr * s.plain(w, grad, variance); });
    }
  }

  T lr, scale, alpha, rest, epsilon, decay, momentum;
  bool centered;
};

}  // namespace
}  // namespace heddle::functors
