// The costs by which algorithms are chosen, the same on all ranks.
#pragma once

#include <heddle/cost_model.h>

#include "bootstrap/rendezvous.h"

namespace heddle::comm_detail {

// Collective. Rank 0's costs, read from `file`, or the built-in ones if `file` is empty; the other ranks need no file.
// Throws InvalidArgument on all ranks if rank 0 cannot read it.
NetworkCost agreed_tuning(Rendezvous& rendezvous, const std::string& file);

}  // namespace heddle::comm_detail
