// Which ranks wait for each other, so that none of them will ever go on.
#pragma once

#include <vector>

#include "host/segment.h"

namespace heddle::comm_detail {

// By rank. A rank is stuck if it waits, and all that it waits for would have to be done by stuck ranks. Any thread or
// process, while the ranks go on: what it finds is true, and stays true.
std::vector<bool> stuck_ranks(const Segment& segment);

// Of such ranks, those that wait for each other in a circle, each with the next one, which it waits for.
std::vector<int> circle_of(const Segment& segment, const std::vector<bool>& stuck);

}  // namespace heddle::comm_detail
