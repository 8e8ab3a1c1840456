// adagrad: the gradient over the root of the sum of all squares so far.
#include "families/optimizer/cpu/steps.h"
#include "families/optimizer/steps/adagrad_functors.h"

namespace heddle::cpu_kernels {
using namespace functors;

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
