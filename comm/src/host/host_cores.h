// Which cores the ranks of a host have between them: bound to one each, two ranks have two.
#pragma once

#include <optional>

#include "host/segment.h"

namespace heddle::comm_detail {

// Writes down what the calling thread may run on.
void say_cores(RankBlock& rank_block);
// How many at least one of the ranks may run on; none as long as not all ranks have come.
std::optional<int> cores_of_ranks(const Segment& segment);

}  // namespace heddle::comm_detail
