// adadelta: steps of the size of former steps.
#include "families/optimizer/cpu/steps.h"
#include "families/optimizer/steps/adadelta_functors.h"

namespace heddle::cpu_kernels {
using namespace functors;

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
