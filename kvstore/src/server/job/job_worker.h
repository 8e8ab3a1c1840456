// A job's record of one of its workers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <heddle/server.h>

#include "server/job/outgoing.h"
#include "server/job/pull_cache.h"
#include "server/job/row_lists.h"

namespace heddle::kv_detail {

// A push_many that is being handled.
struct Bundle {
  std::uint32_t rank;
  std::uint64_t number;
  std::size_t at = 0;                // index of the push that is being handled
  std::vector<std::byte> counted{};  // by push: 1 if the push counts
  std::string why{};                 // error of the first push that does not count
};

// A time in which no worker has sent a request.
struct Stall {
  Clock::time_point since{};
  Clock::duration next{};  // time of the next report, after `since`
  std::string text{};      // which workers wait for which; empty: not looked at yet
};

// When reports are due: of workers that have never come, and of workers that wait for each other.
struct Overdue {
  Clock::time_point begun;  // when the job began
  Clock::duration after;
  Stall stall{};
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
  std::uint64_t passed = 0;  // Job::collectives_ as the worker knew it; 0: the same as all others
  // Job::settings_ as the worker knew it, if the snapshot has fewer; 0: nothing is lost.
  std::uint64_t lost_settings = 0;
  std::vector<std::byte> state{};      // received bytes of a set_state
  std::string state_refusal{};         // why the set_state is refused; empty: accepted
  std::vector<std::byte> bundle{};     // the values of a push_many
  RowLists row_lists{};                // lists of rows of the worker's pulls
  PullCache sent{};                    // values sent to the worker by compressed pulls
  std::vector<StoredKey*> incoming{};  // keys with a value that is being received
  std::uint64_t waiting = 0;           // number of the worker's requests that wait at keys
  std::uint64_t waiting_bytes = 0;     // bytes of the lists of rows of the requests that wait
  std::uint64_t counted = 0;           // bytes of buffers that JobMemory has counted
  WorkerStats stats{};
};

}  // namespace heddle::kv_detail
