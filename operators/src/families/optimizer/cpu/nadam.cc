// nadam: adam with Nesterov's momentum, whose share rises with the number of updates.
#include "families/optimizer/cpu/steps.h"
#include "families/optimizer/steps/nadam_functors.h"

namespace heddle::cpu_kernels {
using namespace functors;

HEDDLE_OPTIMIZERS(nadam) {
  table.add<NadamStep>(
      {.name = "nadam",
       .documentation =
           "adam with Nesterov's momentum (Dozat, ICLR'16 workshop); decoupled_weight_decay as in adamw.",
       .params = {{"lr", 0.002, ParamRange::not_negative},
                  {"beta1", 0.9, ParamRange::fraction},
                  {"beta2", 0.999, ParamRange::fraction},
                  {"epsilon", 1e-8, ParamRange::positive},
                  {"weight_decay", 0, ParamRange::not_negative},
                  {"momentum_decay", 0.004, ParamRange::not_negative},
                  {"decoupled_weight_decay", 0, ParamRange::on_or_off}},
       .state =
           [](const ParamValues&) {
             return StateNames{"mean", "variance"};
           },
       .counts = [](const ParamValues&) { return true; },
       .op = "nadam_update",
       .op_of_rows = "nadam_update_rows"});
}

}  // namespace heddle::cpu_kernels
