// adagrad: the gradient over the root of the sum of all squares so far.
#include <cmath>

#include "families/optimizer/cpu/steps.h"

namespace heddle::cpu_kernels {
namespace {

template <class T> struct AdagradStep {
  enum Param { kLr, kLrDecay, kWeightDecay, kInitial, kEpsilon };

  AdagradStep(const UpdateCall& call, std::int64_t updates)
      : scale(static_cast<T>(call.grad_scale)),
        decay(static_cast<T>(call[kWeightDecay] * call.decay_scale)),
        initial(static_cast<T>(call[kInitial])),
        epsilon(static_cast<T>(call[kEpsilon])),
        rate(static_cast<T>(call.lr / (1 + static_cast<double>(updates - 1) * call[kLrDecay]))) {}

  void operator()(const WeightPart<T>& part) const {
    const AdagradStep s = *this;
    for_elements<1>(part, [s](T& w, T grad, T& sum) {
      const T g = grad * s.scale + s.decay * w;
      sum += g * g;
      w -= s.rate * g / (std::sqrt(sum + s.initial) + s.epsilon);
    });
  }

  T scale, decay, initial, epsilon, rate;
};

}  // namespace

HEDDLE_OPTIMIZERS(adagrad) {
  using P = AdagradStep<float>;
  table.add<AdagradStep>(
      {.name = "adagrad",
       .documentation = "Duchi et al., JMLR 2011; lr falls as 1 / (1 + updates * lr_decay).",
       .params = {{"lr", 0.01, ParamRange::not_negative},
                  {"lr_decay", 0, ParamRange::not_negative},
                  {"weight_decay", 0, ParamRange::not_negative},
                  {"initial_accumulator_value", 0, ParamRange::not_negative},
                  {"epsilon", 1e-10, ParamRange::positive}},
       .state = [](const ParamValues&) { return StateNames{"sum"}; },
       .counts = [](const ParamValues& p) { return p[P::kLrDecay] > 0; },
       .op = "adagrad_update",
       .op_of_rows = "adagrad_update_rows"});
}

}  // namespace heddle::cpu_kernels
