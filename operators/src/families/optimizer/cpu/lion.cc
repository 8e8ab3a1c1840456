// lion: the sign of a mean of gradients.
#include "families/optimizer/cpu/steps.h"

namespace heddle::cpu_kernels {
namespace {

template <class T> struct LionStep {
  enum Param { kLr, kBeta1, kBeta2, kWeightDecay };

  LionStep(const UpdateCall& call, std::int64_t)
      : lr(static_cast<T>(call.lr)),
        scale(static_cast<T>(call.grad_scale)),
        beta1(static_cast<T>(call[kBeta1])),
        beta2(static_cast<T>(call[kBeta2])),
        rest1(static_cast<T>(1 - call[kBeta1])),
        rest2(static_cast<T>(1 - call[kBeta2])),
        keep(static_cast<T>(1 - call.lr * call[kWeightDecay] * call.decay_scale)) {}

  void operator()(const WeightPart<T>& part) const {
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

HEDDLE_OPTIMIZERS(lion) {
  table.add<LionStep>(
      {.name = "lion",
       .documentation =
           "The sign of a mean of gradients (Chen et al., arXiv:2302.06675); weight_decay as in adamw.",
       .params = {{"lr", 0.0001, ParamRange::not_negative},
                  {"beta1", 0.9, ParamRange::fraction},
                  {"beta2", 0.99, ParamRange::fraction},
                  {"weight_decay", 0, ParamRange::not_negative}},
       .state = [](const ParamValues&) { return StateNames{"mean"}; },
       .op = "lion_update",
       .op_of_rows = "lion_update_rows"});
}

}  // namespace heddle::cpu_kernels
