// adadelta: steps of the size of former steps.
#include <cmath>

#include "families/optimizer/cpu/steps.h"

namespace heddle::cpu_kernels {
namespace {

template <class T> struct AdadeltaStep {
  enum Param { kLr, kRho, kEpsilon, kWeightDecay };

  AdadeltaStep(const UpdateCall& call, std::int64_t)
      : lr(static_cast<T>(call.lr)),
        scale(static_cast<T>(call.grad_scale)),
        rho(static_cast<T>(call[kRho])),
        rest(static_cast<T>(1 - call[kRho])),
        epsilon(static_cast<T>(call[kEpsilon])),
        decay(static_cast<T>(call[kWeightDecay] * call.decay_scale)) {}

  void operator()(const WeightPart<T>& part) const {
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

HEDDLE_OPTIMIZERS(adadelta) {
  table.add<AdadeltaStep>({.name = "adadelta",
                           .documentation = "Zeiler, arXiv:1212.5701: steps of the size of former steps.",
                           .params = {{"lr", 1, ParamRange::not_negative},
                                      {"rho", 0.9, ParamRange::fraction},
                                      {"epsilon", 1e-6, ParamRange::positive},
                                      {"weight_decay", 0, ParamRange::not_negative}},
                           .state =
                               [](const ParamValues&) {
                                 return StateNames{"variance", "step_variance"};
                               },
                           .op = "adadelta_update",
                           .op_of_rows = "adadelta_update_rows"});
}

}  // namespace heddle::cpu_kernels
