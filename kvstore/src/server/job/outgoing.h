// What a job shares with its server: replies to send, counts and limits.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include <heddle/server.h>

#include "server/job/held_memory.h"
#include "transport/transport.h"
#include "wire/messages.h"

namespace heddle::kv_detail {

using namespace net_detail;

using Clock = std::chrono::steady_clock;

// A reply that the owner sends.
struct Outgoing {
  Peer peer;
  Reply reply;
  Payload payload{};
  int priority = 0;
  // Kind and arrival of the request that this reply ends, for statistics; the epoch: it is not measured.
  Kind request = Kind::ping;
  Clock::time_point arrived{};
};

// The reply that ends a request.
inline Outgoing reply_to(const Request& request, Peer peer, Reply reply, Payload payload = {}) {
  return {.peer = peer,
          .reply = std::move(reply),
          .payload = std::move(payload),
          .request = request.kind,
          .arrived = request.arrived};
}

// Statistics of a server, over all jobs.
struct Counters {
  std::uint64_t pushes = 0, pulls = 0, duplicates = 0, refused = 0, rounds = 0, worst_staleness = 0;
  std::uint64_t overhead = 0;  // bytes that jobs, workers and keys take themselves
  HeldMemory held{};
};

// Limits in bytes on values, optimizer state and pushes that wait; 0: none. Overhead, what jobs, workers and
// keys take themselves, may be as much again, and 1 MiB at least.
struct MemoryLimits {
  std::uint64_t server = 0, job = 0;
};
MemoryLimits limits_of(const std::string& job, const ServerOptions& options);
// Why there is no room for `more` bytes of overhead; empty: there is.
std::string no_room_for_overhead(std::uint64_t more, MemoryLimits limits, std::uint64_t of_server,
                                 std::uint64_t of_job);

// Most rounds that a worker may be ahead of another one.
constexpr std::size_t kMostAhead = 1 << 14;

// Position of an init in the worker's order of keys: the number of keys that it initialised before.
inline std::uint32_t init_index_of(const Request& init) {
  return static_cast<std::uint32_t>(-static_cast<std::int64_t>(init.priority));
}

inline bool is_last(const Request& request, std::size_t payload) {
  if (request.kind == Kind::pull_many) return true;
  if (request.kind == Kind::pull && request.row_bytes == 0) return true;  // `bytes` is no length then
  return request.offset + payload == request.bytes;
}

// The bits of a key's number that are its index. The bits above have the generation of the job at its init.
constexpr std::uint32_t kKeyIndex = (1 << 24) - 1;

}  // namespace heddle::kv_detail
