// rmsprop: the gradient over the root of the mean of its squares, or of its variance, with momentum.
#include "families/optimizer/cpu/steps.h"
#include "families/optimizer/steps/rmsprop_functors.h"

namespace heddle::cpu_kernels {
using namespace functors;

HEDDLE_OPTIMIZERS(rmsprop) {
  using P = RmspropStep<float>;
  table.add<RmspropStep>(
      {.name = "rmsprop",
       .documentation = "Tieleman and Hinton, 2012; centered: by the variance (Graves, arXiv:1308.0850).",
       .params = {{"lr", 0.01, ParamRange::not_negative},
                  {"alpha", 0.99, ParamRange::fraction},
                  {"epsilon", 1e-8, ParamRange::positive},
                  {"weight_decay", 0, ParamRange::not_negative},
                  {"momentum", 0, ParamRange::fraction},
                  {"centered", 0, ParamRange::on_or_off}},
       .state =
           [](const ParamValues& p) {
             StateNames names{"variance"};
             if (p[P::kCentered] != 0) names.push_back("mean");
             if (p[P::kMomentum] > 0) names.push_back("velocity");
             return names;
           },
       .op = "rmsprop_update",
       .op_of_rows = "rmsprop_update_rows"});
}

}  // namespace heddle::cpu_kernels
