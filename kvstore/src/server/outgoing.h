// What a job tells its server: replies to send, and counts.
#pragma once

#include <cstdint>

#include "transport/transport.h"
#include "wire/messages.h"

namespace heddle::kv_detail {

// A reply that the owner sends.
struct Outgoing {
  Peer peer;
  Reply reply;
  Payload payload{};
  int priority = 0;
};

// Counts of a server, over all jobs.
struct Counters {
  std::uint64_t pushes = 0, pulls = 0, duplicates = 0, refused = 0, rounds = 0, worst_staleness = 0;
};

// Bytes of values, optimizer state and pushes that wait; 0: no limit.
struct MemoryLimits {
  std::uint64_t server = 0, job = 0;
};

}  // namespace heddle::kv_detail
