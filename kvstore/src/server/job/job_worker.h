// A job's record of one of its workers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <heddle/server.h>

#include "server/job/outgoing.h"
#include "server/job/pull_cache.h"
#include "server/key/incoming.h"
#include "server/key/row_lists.h"

namespace heddle::kv_detail {

// What a job holds for one worker. Without its connection a worker has only requests that wait.
struct WorkerBuffers {
  std::shared_ptr<std::vector<std::byte>> state{};  // received bytes of a set_state; null: none
  std::string state_refusal{};                      // why the set_state is refused; empty: accepted
  RowLists row_lists{};                             // lists of rows of the worker's pulls
  IncomingValues incoming{};                        // values of its inits and pushes
  PullCache sent{};                                 // values sent to the worker by compressed pulls
  std::uint64_t waiting_bytes = 0;                  // bytes of the lists of rows of requests that wait

  std::uint64_t received_bytes() const {
    return (state ? state->size() : 0) + row_lists.bytes() + incoming.bytes() + waiting_bytes;
  }
  void forget_state() { state = nullptr, state_refusal.clear(); }
  void disconnect() { *this = {.waiting_bytes = waiting_bytes}; }
};

// Buffers that only a BufferChange changes, which counts their memory.
class CountedBuffers {
 public:
  const WorkerBuffers* operator->() const { return &buffers_; }

 private:
  friend class BufferChange;
  WorkerBuffers buffers_{};
  std::uint64_t received_ = 0, sent_ = 0;  // bytes that JobMemory has counted
};

struct JobWorker {
  Peer peer = 0;  // 0: not connected
  std::uint64_t incarnation = 0;
  bool greeted = false;   // the worker has joined the job
  bool left = false;      // the worker has sent Kind::leave
  bool dropped = false;   // the worker is gone for too long: others do not wait for it
  bool rejoined = false;  // another process with this rank had joined before
  Clock::time_point last_seen{};
  // The latest barrier or set_optimizer that was answered, and its error: for a worker that repeats it.
  std::uint64_t collective_done = 0;
  std::string collective_failure{};
  std::uint64_t state_set = 0;  // number of the latest set_state; a repeated one counts once
  // `passed` and `lost_settings` are from Kind::resume, after the job was restored from a snapshot.
  std::uint64_t passed = 0;  // JobCounts::collectives as the worker knew it; 0: the same as all others
  // JobCounts::settings as the worker knew it, if the snapshot has fewer; 0: nothing is lost.
  std::uint64_t lost_settings = 0;
  std::vector<std::byte> bundle{};  // the values of a push_many
  CountedBuffers buffers{};
  std::uint64_t waiting = 0;  // number of the worker's requests that wait at keys
  WorkerStats stats{};

  void disconnect() { peer = 0, stats.connected = false; }
};

}  // namespace heddle::kv_detail
