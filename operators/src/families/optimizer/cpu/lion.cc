// lion: the sign of a mean of gradients.
#include "families/optimizer/cpu/steps.h"
#include "families/optimizer/steps/lion_functors.h"

namespace heddle::cpu_kernels {
using namespace functors;

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
