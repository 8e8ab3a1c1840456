// lars: sgd with momentum, whose gradient is scaled by the norms of weight and gradient.
#include "families/optimizer/cpu/steps.h"
#include "families/optimizer/steps/lars_functors.h"

namespace heddle::cpu_kernels {
using namespace functors;

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
