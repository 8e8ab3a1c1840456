// The cores that the ranks of a host may run on together: two ranks that are bound to one core each have two.
#pragma once

#include <optional>

#include "host/segment.h"

namespace heddle::comm_detail {

// Writes the cores that the calling thread may run on into its rank block.
void record_cores(RankBlock& rank_block);
// How many cores at least one of the ranks may run on; nullopt until all ranks have joined.
std::optional<int> cores_of_ranks(const Segment& segment);

}  // namespace heddle::comm_detail
