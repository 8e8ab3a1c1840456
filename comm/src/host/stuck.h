// Finds deadlocks: ranks that wait for each other, so that none of them will ever go on.
#pragma once

#include <vector>

#include "host/segment.h"

namespace heddle::comm_detail {

// By rank. A rank is stuck if it waits, and all its waits could be ended by stuck ranks only. Any thread or process may
// call this while the ranks run: a rank that it returns is stuck, and stays so.
std::vector<bool> stuck_ranks(const Segment& segment);

// A cycle of stuck ranks, in which each waits for the next one.
std::vector<int> cycle_of(const Segment& segment, const std::vector<bool>& stuck);

}  // namespace heddle::comm_detail
