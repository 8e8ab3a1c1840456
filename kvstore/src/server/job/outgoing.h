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

// A reply that the owner of the ServerCore is to send.
struct Outgoing {
  Peer peer;
  Reply reply;
  Payload payload{};
  int priority = 0;
  // Kind and time of arrival of the request that this reply ends, for statistics. An `arrived` of
  // Clock::time_point(): the request is not measured.
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
  std::uint64_t overhead = 0;  // bytes that records of jobs, workers and keys take, without values
  HeldMemory held{};
};

// Limits in bytes on values, optimizer state and pushes that wait; 0: none. The overhead of records of jobs,
// workers and keys has a limit of its own of the same size, or of 1 MiB if that is more.
struct MemoryLimits {
  std::uint64_t server = 0, job = 0;
};
MemoryLimits limits_of(const std::string& job, const ServerOptions& options);
// Why there is no room for `more` bytes of overhead; empty: there is.
std::string no_room_for_overhead(std::uint64_t more, MemoryLimits limits, std::uint64_t of_server,
                                 std::uint64_t of_job);

// The most rounds that a worker may be ahead of another worker.
constexpr std::size_t kMostAhead = 1 << 14;

// Position of an init in the worker's order of keys: the number of keys that the worker initialised earlier.
inline std::uint32_t init_index_of(const Request& init) {
  return static_cast<std::uint32_t>(-static_cast<std::int64_t>(init.priority));
}

inline bool is_last(const Request& request, std::size_t payload) {
  if (request.kind == Kind::pull_many) return true;
  // `bytes` of a pull without row_bytes is no length.
  if (request.kind == Kind::pull && request.row_bytes == 0) return true;
  return request.offset + payload == request.bytes;
}

// The bits of a key's number that are its index in the table. The higher bits have KeyTable::generation() at
// the time at which the key was made.
constexpr std::uint32_t kKeyIndex = (1 << 24) - 1;

}  // namespace heddle::kv_detail
