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

// What a job holds for one worker. When the worker's connection is lost, all but waiting_bytes is freed.
struct WorkerBuffers {
  std::shared_ptr<std::vector<std::byte>> state{};  // received bytes of a set_state; null: none
  std::string state_refusal{};                      // why the set_state is refused; empty: accepted
  RowLists row_lists{};                             // lists of rows of the worker's pulls
  IncomingValues incoming{};                        // values of its inits and pushes that are being received
  PullCache sent{};                                 // values sent to the worker by compressed pulls
  std::uint64_t waiting_bytes = 0;                  // bytes of the lists of rows of requests that wait

  std::uint64_t received_bytes() const {
    return (state ? state->size() : 0) + row_lists.bytes() + incoming.bytes() + waiting_bytes;
  }
  void forget_state() { state = nullptr, state_refusal.clear(); }
  void disconnect() { *this = {.waiting_bytes = waiting_bytes}; }
};

// A worker's buffers. Only a BufferChange can change them, so that their memory is counted.
class CountedBuffers {
 public:
  const WorkerBuffers* operator->() const { return &buffers_; }

 private:
  friend class BufferChange;
  WorkerBuffers buffers_{};
  std::uint64_t received_ = 0, sent_ = 0;  // bytes of received and sent values that JobMemory has counted
};

struct JobWorker {
  Peer peer = 0;  // the worker's connection; 0: not connected
  std::uint64_t incarnation = 0;
  bool greeted = false;   // whether the worker has joined the job
  bool left = false;      // whether the worker has sent Kind::leave
  bool dropped = false;   // whether the worker was gone for too long, so that others do not wait for it
  bool rejoined = false;  // whether another process with this rank had joined earlier
  Clock::time_point last_seen{};
  // Number and error of the latest barrier or set_optimizer that was answered, to answer it again if the
  // worker repeats it.
  std::uint64_t collective_done = 0;
  std::string collective_failure{};
  std::uint64_t state_set = 0;  // number of the latest set_state, to recognise one that the worker repeats
  // Set by Kind::resume, after the job was restored from a snapshot: JobCounts::collectives of the last
  // answer that the worker has had; 0: not set, or no longer of use.
  std::uint64_t passed = 0;
  // Set by Kind::resume: JobCounts::settings of the last answer that the worker has had, if the snapshot has
  // fewer; 0: no setting is lost.
  std::uint64_t lost_settings = 0;
  std::vector<std::byte> bundle{};  // the values of the push_many that is being received
  CountedBuffers buffers{};
  std::uint64_t waiting = 0;  // number of the worker's inits, pulls and get_states that wait at keys
  WorkerStats stats{};

  void disconnect() { peer = 0, stats.connected = false; }
};

}  // namespace heddle::kv_detail
