// What a job knows of one of its workers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <heddle/server.h>

#include "server/outgoing.h"
#include "server/row_lists.h"
#include "server/sent_values.h"

namespace heddle::kv_detail {

// A push_many that is being handled.
struct Bundle {
  std::uint32_t rank;
  std::uint64_t number;
  std::size_t at = 0;                // of its pushes
  std::vector<std::byte> counted{};  // by push: whether it counts
  std::string why{};                 // the first that does not
};

// Since when no worker has asked for anything.
struct Stall {
  Clock::time_point since{};
  Clock::duration next{};  // after `since`, when it is said again
  std::string text{};      // who waits for whom; empty: that is not looked at yet
};

// When it is said which workers have never come, and who waits for whom.
struct Overdue {
  Clock::time_point begun;  // the job
  Clock::duration after;
  Stall stall{};
};

struct JobWorker {
  Peer peer = 0;  // 0: not connected
  std::uint64_t incarnation = 0;
  bool greeted = false;   // it has been here
  bool left = false;      // it has said so
  bool dropped = false;   // gone for too long: nobody waits for it
  bool rejoined = false;  // another process of the same rank was here before
  Clock::time_point last_seen{};
  // The latest call that all workers make, for a worker that asks again.
  std::uint64_t collective_done = 0;
  std::string collective_failure{};
  std::uint64_t state_set = 0;  // the latest set_state that counts: one that is sent again counts once
  // The next two are what a worker has said in Kind::resume, after the job was restored from a snapshot.
  std::uint64_t passed = 0;  // Job::collectives_ as it knew it; 0: it is as all others are
  std::uint64_t lost_settings =
      0;  // Job::settings_ as it knew it, if the snapshot has fewer; 0: nothing is lost
  std::vector<std::byte> state{};      // of a set_state that comes in pieces
  std::string state_refusal{};         // why it is not wanted; empty: it is
  std::vector<std::byte> bundle{};     // the values of a push_many
  RowLists row_lists{};                // of pulls
  SentValues sent{};                   // by compressed pulls
  std::vector<StoredKey*> incoming{};  // of which pieces have come
  std::uint64_t waiting = 0;           // requests that wait at keys
  std::uint64_t waiting_bytes = 0;     // of the lists of rows that these name
  std::uint64_t counted = 0;           // bytes of buffers that the job has counted
  WorkerStats stats{};
};

}  // namespace heddle::kv_detail
