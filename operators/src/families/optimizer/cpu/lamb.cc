// lamb: a step of adamw whose norm is that of the weight.
#include "families/optimizer/cpu/steps.h"
#include "families/optimizer/steps/lamb_functors.h"

namespace heddle::cpu_kernels {
using namespace functors;

HEDDLE_OPTIMIZERS(lamb) {
  table.add<LambStep>(
      {.name = "lamb",
       .documentation =
           "A step of adamw with the norm of the weight, times lr (You et al., arXiv:1904.00962).",
       .params = {{"lr", 0.001, ParamRange::not_negative},
                  {"beta1", 0.9, ParamRange::fraction},
                  {"beta2", 0.999, ParamRange::fraction},
                  {"epsilon", 1e-6, ParamRange::positive},
                  {"weight_decay", 0.01, ParamRange::not_negative}},
       .state =
           [](const ParamValues&) {
             return StateNames{"mean", "variance"};
           },
       .op = "lamb_update"});
}

}  // namespace heddle::cpu_kernels
