// The costs that algorithms are chosen by, the same on all ranks.
#pragma once

#include <heddle/cost_model.h>

#include "bootstrap/rendezvous.h"

namespace heddle::comm_detail {

// Rank 0's, read from `file`, built-in where it is empty; the other ranks need no file. Blocks until all have come; throws
// InvalidArgument on all of them if rank 0 cannot read it.
NetworkCost agreed_tuning(Rendezvous& rendezvous, const std::string& file);

}  // namespace heddle::comm_detail
