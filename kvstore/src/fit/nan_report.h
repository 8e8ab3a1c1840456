// Where a loss that is NaN or infinite comes from.
#pragma once

#include <string>
#include <vector>

#include "fit/fit_step.h"

namespace heddle::fit_detail {

// Computes the loss of a batch again, with the parameters and the mode that the network has, and looks at what each module
// returns. The text names the first array that is not finite: of the batch, a parameter, a module's result, the loss or a
// gradient. Leaves the state of the network as it was. Waits.
std::string report_of_nan(Module& net, const FitStep& step, const BatchLoss& loss,
                          const std::vector<Arrays>& group);

}  // namespace heddle::fit_detail
