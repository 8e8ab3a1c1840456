// sgd: the gradient, with momentum, which may look one step ahead.
#include "families/optimizer/cpu/steps.h"

namespace heddle::cpu_kernels {
namespace {

template <class T> struct SgdStep {
  enum Param { kLr, kMomentum, kNesterov, kWeightDecay };

  SgdStep(const UpdateCall& call, std::int64_t)
      : lr(static_cast<T>(call.lr)),
        scale(static_cast<T>(call.grad_scale)),
        momentum(static_cast<T>(call[kMomentum])),
        decay(static_cast<T>(call[kWeightDecay] * call.decay_scale)),
        nesterov(call[kNesterov] != 0) {}

  void operator()(const WeightPart<T>& part) const {
    const T rate = lr, factor = scale, share = momentum, shrink = decay;
    if (!part.state[0])
      return for_elements<0>(part, [=](T& w, T grad) { w -= rate * (grad * factor + shrink * w); });
    // Both kinds of momentum are gradient * a + velocity * b: no branch in the loop.
    const T a = nesterov ? T(1) : T(0), b = nesterov ? momentum : T(1);
    for_elements<1>(part, [=](T& w, T grad, T& velocity) {
      const T g = grad * factor + shrink * w;
      const T v = share * velocity + g;
      velocity = v;
      w -= rate * (a * g + b * v);
    });
  }

  T lr, scale, momentum, decay;
  bool nesterov;
};

}  // namespace

HEDDLE_OPTIMIZERS(sgd) {
  using P = SgdStep<float>;
  table.add<SgdStep>(
      {.name = "sgd",
       .documentation = "Stochastic gradient descent; weight_decay is added to the gradient.",
       .params = {{"lr", 0.01, ParamRange::not_negative},
                  {"momentum", 0, ParamRange::fraction},
                  {"nesterov", 0, ParamRange::on_or_off},
                  {"weight_decay", 0, ParamRange::not_negative}},
       .state =
           [](const ParamValues& p) { return p[P::kMomentum] > 0 ? StateNames{"velocity"} : StateNames{}; },
       .problem =
           [](const ParamValues& p) {
             return std::string(
                 p[P::kNesterov] != 0 && p[P::kMomentum] == 0 ? "nesterov needs a momentum above 0" : "");
           },
       .op = "sgd_update",
       .op_of_rows = "sgd_update_rows"});
}

}  // namespace heddle::cpu_kernels
