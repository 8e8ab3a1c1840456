// Where a loss that is NaN or infinite comes from.
#pragma once

#include <string>
#include <vector>

#include "fit/fit_step.h"
#include "fit/given_arrays.h"

namespace heddle::fit_detail {

// Computes the loss of a batch again, with the parameters and the mode that the network has, and looks at what each module
// returns. The text names the first array that is not finite: of the batch, a parameter, a module's result, the loss or a
// gradient. Leaves the state of the network as it was, and draws random numbers. An exception of the network or of the loss is in
// the text. Waits.
std::string report_of_nan(Module& net, const FitStep& step, const BatchLoss& loss,
                          const std::vector<Arrays>& group, const GivenArrays& given);

}  // namespace heddle::fit_detail
