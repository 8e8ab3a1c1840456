// Small reductions that are there at the same time go as one: a message costs microseconds, a few bytes more nothing.
//
// What is fused must be the same on all ranks, and nobody negotiates. Each call's messages carry CallRecord::ahead: how
// many of the calls right behind it are there on this rank and may go as one. Every message carries the least of what its
// sender had heard so far; and since each element of an all_reduce depends on all ranks, each rank has heard of all when it
// is done. So all know how many of the next calls are there everywhere: these are the next to be carried, as one.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "communicator/call.h"
#include "core/backend.h"

namespace heddle::comm_detail {

// How many of the first calls may go as one; 0 if not even two.
std::uint8_t count_fusable(const std::deque<std::shared_ptr<Call>>& calls, const Backend& backend,
                           std::size_t most);

// Runs them as one. Throws what the one throws.
void run_fused(std::span<const std::shared_ptr<Call>> calls, Backend& backend,
               std::vector<std::byte>& memory);

}  // namespace heddle::comm_detail
