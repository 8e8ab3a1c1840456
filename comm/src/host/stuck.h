// Finds deadlocks: ranks that wait for each other, so that none of them will ever go on.
#pragma once

#include <vector>

#include "host/segment.h"

namespace heddle::comm_detail {

// Returns, by rank, whether the rank is stuck: it waits, and only stuck ranks could end its waits. Any thread
// or process may call this while the ranks run: a rank that is reported as stuck stays stuck.
std::vector<bool> stuck_ranks(const Segment& segment);

// A cycle of stuck ranks, in which each waits for the next one.
std::vector<int> cycle_of(const Segment& segment, const std::vector<bool>& stuck);

}  // namespace heddle::comm_detail
