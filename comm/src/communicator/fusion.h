// Small reductions that are ready at the same time run as one: a message costs microseconds, a few bytes more cost
// nothing.
//
// All ranks must fuse the same calls, and they agree on them without a negotiation. Each call's messages carry
// CallRecord::ahead: how many of the calls right behind it are ready on this rank and may run as one. A message carries
// the smallest count that its sender has received so far. Each element of an all_reduce depends on all ranks, so that
// when the call is done every rank has heard of all, and all have the same count: so many of the next calls then run as
// one.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "communicator/call.h"
#include "core/backend.h"

namespace heddle::comm_detail {

// How many of the first calls are ready and may run as one, of up to max_bytes together; 0 if not even two.
std::uint8_t count_fusable(const std::deque<std::shared_ptr<Call>>& calls, const Backend& backend,
                           std::size_t max_bytes);

// Runs the calls as one, on a copy of their data in `memory`, which grows as needed. Throws what that one throws.
void run_fused(std::span<const std::shared_ptr<Call>> calls, Backend& backend,
               std::vector<std::byte>& memory);

}  // namespace heddle::comm_detail
