// Recurrent networks composed of operators, unrolled in time: what gradients of gradients are computed by.
#pragma once

#include "families/recurrent/kernels.h"

namespace heddle::operators_detail {

// The results of the kernel `recurrent`, as one array, recorded on the tape.
NDArray composed_recurrent(const RecurrentProblem& problem, const RecurrentArrays& in);

}  // namespace heddle::operators_detail
