// rmsprop: the gradient over the root of the mean of its squares, or of its variance, with momentum.
#include <cmath>

#include "families/optimizer/cpu/steps.h"

namespace heddle::cpu_kernels {
namespace {

template <class T> struct RmspropStep {
  enum Param { kLr, kAlpha, kEpsilon, kWeightDecay, kMomentum, kCentered };

  RmspropStep(const UpdateCall& call, std::int64_t)
      : lr(static_cast<T>(call.lr)),
        scale(static_cast<T>(call.grad_scale)),
        alpha(static_cast<T>(call[kAlpha])),
        rest(static_cast<T>(1 - call[kAlpha])),
        epsilon(static_cast<T>(call[kEpsilon])),
        decay(static_cast<T>(call[kWeightDecay] * call.decay_scale)),
        momentum(static_cast<T>(call[kMomentum])),
        centered(call[kCentered] != 0) {}

  // The gradient over its root.
  T plain(T w, T grad, T& variance) const {
    const T g = grad * scale + decay * w;
    variance = alpha * variance + rest * g * g;
    return g / (std::sqrt(variance) + epsilon);
  }
  // Rounding may make a variance of about 0 negative.
  T around_mean(T w, T grad, T& variance, T& mean) const {
    const T g = grad * scale + decay * w;
    variance = alpha * variance + rest * g * g;
    mean = alpha * mean + rest * g;
    return g / (std::sqrt(std::max(variance - mean * mean, T(0))) + epsilon);
  }

  void operator()(const WeightPart<T>& part) const {
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

HEDDLE_OPTIMIZERS(rmsprop) {
  using P = RmspropStep<float>;
  table.add<RmspropStep>(
      {.name = "rmsprop",
       .documentation = "Tieleman and Hinton, 2012; centered: by the variance (Graves, arXiv:1308.0850).",
       .params = {{"lr", 0.01, ParamRange::not_negative},
                  {"alpha", 0.99, ParamRange::fraction},
                  {"epsilon", 1e-8, ParamRange::positive},
                  {"weight_decay", 0, ParamRange::not_negative},
                  {"momentum", 0, ParamRange::fraction},
                  {"centered", 0, ParamRange::on_or_off}},
       .state =
           [](const ParamValues& p) {
             StateNames names{"variance"};
             if (p[P::kCentered] != 0) names.push_back("mean");
             if (p[P::kMomentum] > 0) names.push_back("velocity");
             return names;
           },
       .op = "rmsprop_update",
       .op_of_rows = "rmsprop_update_rows"});
}

}  // namespace heddle::cpu_kernels
