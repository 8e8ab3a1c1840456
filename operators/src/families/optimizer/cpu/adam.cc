// adam and adamw: the mean of the gradients over the root of the mean of their squares.
#include "families/optimizer/cpu/steps.h"
#include "families/optimizer/steps/adam_functors.h"

namespace heddle::cpu_kernels {
using namespace functors;

namespace {

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
