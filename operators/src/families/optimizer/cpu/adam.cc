// adam and adamw: the mean of the gradients over the root of the mean of their squares.
#include <cmath>

#include "families/optimizer/cpu/steps.h"

namespace heddle::cpu_kernels {
namespace {

enum AdamParam { kAdamLr, kAdamBeta1, kAdamBeta2, kAdamEpsilon, kAdamWeightDecay, kAdamAmsgrad };

// decoupled: weight decay acts on the weight, not on the gradient.
template <class T, bool decoupled> struct AdamStep {
  AdamStep(const UpdateCall& call, std::int64_t updates)
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

  void operator()(const WeightPart<T>& part) const {
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

  void moments(T w, T grad, T& mean, T& variance) const {
    const T g = grad * scale + coupled * w;
    mean = beta1 * mean + rest1 * g;
    variance = beta2 * variance + rest2 * g * g;
  }

  T scale, epsilon, beta1, beta2, rest1, rest2, rate, unbias, coupled, keep;
};

template <class T> using CoupledAdam = AdamStep<T, false>;
template <class T> using DecoupledAdam = AdamStep<T, true>;

OptimizerRule adam_rule(const char* name, double weight_decay, const char* documentation) {
  return {.name = name,
          .documentation = documentation,
          .params = {{"lr", 0.001, ParamRange::not_negative},
                     {"beta1", 0.9, ParamRange::fraction},
                     {"beta2", 0.999, ParamRange::fraction},
                     {"epsilon", 1e-8, ParamRange::positive},
                     {"weight_decay", weight_decay, ParamRange::not_negative},
                     {"amsgrad", 0, ParamRange::on_or_off, true}},
          .state =
              [](const ParamValues& p) {
                StateNames names{"mean", "variance"};
                if (p[kAdamAmsgrad] != 0) names.push_back("max_variance");
                return names;
              },
          .counts = [](const ParamValues&) { return true; },
          .op = "adam_update",
          .op_of_rows = "adam_update_rows"};
}

}  // namespace

HEDDLE_OPTIMIZERS(adam) {
  table.add<CoupledAdam>(adam_rule("adam", 0, "Kingma and Ba, ICLR'15; with amsgrad Reddi et al., ICLR'18."));
  table.add<DecoupledAdam>(
      adam_rule("adamw", 0.01,
                "As adam; weight_decay is taken from the weight itself (Loshchilov and Hutter, ICLR'19)."));
}

}  // namespace heddle::cpu_kernels
