// sgd: the gradient, with momentum, which may look one step ahead.
#include "families/optimizer/cpu/steps.h"
#include "families/optimizer/steps/sgd_functors.h"

namespace heddle::cpu_kernels {
using namespace functors;

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
