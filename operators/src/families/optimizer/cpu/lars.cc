// lars: sgd with momentum, whose gradient is scaled by the norms of weight and gradient.
#include <cmath>

#include "families/optimizer/cpu/steps.h"
#include "families/optimizer/cpu/sums.h"

namespace heddle::cpu_kernels {
namespace {

template <class T> struct LarsStep {
  enum Param { kLr, kMomentum, kNesterov, kTrust, kWeightDecay, kEpsilon };

  LarsStep(const UpdateCall& call, std::int64_t)
      : trust(call[kTrust]),
        epsilon(call[kEpsilon]),
        weight_decay(call[kWeightDecay] * call.decay_scale),
        lr(static_cast<T>(call.lr)),
        scale(static_cast<T>(call.grad_scale)),
        momentum(static_cast<T>(call[kMomentum])),
        decay(static_cast<T>(weight_decay)),
        nesterov(call[kNesterov] != 0) {}

  Norms norms(const WeightPart<T>& part) const {
    const T *w = part.weight, *grad = part.grad;
    const T factor = scale;
    return {sum_in_order(part.n, [=](std::int64_t i) { return static_cast<double>(w[i]) * w[i]; }),
            sum_in_order(part.n, [=](std::int64_t i) {
              const double g = grad[i] * factor;
              return g * g;
            })};
  }

  void take(const Norms& all) {
    const double weight = std::sqrt(all.weight), grad = std::sqrt(all.update);
    const bool both = weight > 0 && grad > 0;
    ratio = static_cast<T>(both ? trust * weight / (grad + weight_decay * weight + epsilon) : 1);
  }

  void operator()(const WeightPart<T>& part) const {
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

HEDDLE_OPTIMIZERS(lars) {
  table.add<LarsStep>(
      {.name = "lars",
       .documentation =
           "sgd with gradients scaled by the norm of the weight over theirs (You et al., arXiv:1708.03888).",
       .params = {{"lr", 0.1, ParamRange::not_negative},
                  {"momentum", 0.9, ParamRange::fraction},
                  {"nesterov", 0, ParamRange::on_or_off},
                  {"trust_coefficient", 0.001, ParamRange::positive},
                  {"weight_decay", 0, ParamRange::not_negative},
                  {"epsilon", 1e-8, ParamRange::positive}},
       .state = [](const ParamValues&) { return StateNames{"velocity"}; },
       .op = "lars_update"});
}

}  // namespace heddle::cpu_kernels
