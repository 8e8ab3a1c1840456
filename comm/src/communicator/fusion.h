// Fusion: small reductions that are ready at the same time run as one, since a message costs microseconds and a few
// more bytes almost nothing.
//
// All ranks must fuse the same calls, without negotiating. The messages of a call contain CallRecord::ahead: how many
// of the next calls are ready on the sender and may be fused, or the smallest such number that the sender has received
// in this call, if that is smaller. Each element of an all_reduce depends on all ranks, so a rank that has the result
// has received the minimum over all ranks. This is the number of the next calls that are ready on all ranks, which each
// rank then runs as one.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "communicator/call.h"
#include "core/backend.h"

namespace heddle::comm_detail {

// How many calls at the front of `calls` are ready and may run as one call of max_bytes at most; 0 if fewer
// than two.
std::uint8_t count_fusable(const std::deque<std::shared_ptr<Call>>& calls, const Backend& backend,
                           std::size_t max_bytes);

// Runs the calls as one, on a copy of their data in `memory`, which grows as needed. Throws what the fused call
// throws.
void run_fused(std::span<const std::shared_ptr<Call>> calls, Backend& backend,
               std::vector<std::byte>& memory);

}  // namespace heddle::comm_detail
