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
  std::uint64_t state_set = 0;      // the latest set_state that counts: one that is sent again counts once
  std::vector<std::byte> state{};   // of a set_state that comes in pieces
  std::vector<std::byte> bundle{};  // the values of a push_many
  RowLists row_lists{};             // of pulls
  SentValues sent{};                // by compressed pulls
  WorkerStats stats{};
};

}  // namespace heddle::kv_detail
