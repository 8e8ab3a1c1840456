// Calls that all workers of a job make: barriers, and the choice of an optimizer.
#pragma once

#include <cstdint>
#include <string>

#include "server/job/job_state.h"
#include "server/job/key_updates.h"

namespace heddle::kv_detail {

class Collectives {
 public:
  Collectives(JobState& job, KeyUpdates& updates) : job_(job), updates_(updates) {}

  // Handles a barrier or set_optimizer. A worker that repeats one, since its connection was lost, gets the
  // answer that it was given first.
  void call(std::uint32_t rank, const Request& request);
  // Answers the pending calls, if all workers that others wait for have called.
  void complete(Recorded recorded);
  // Handles Kind::resume from a worker that is back after the job was restored. The worker may have had
  // answers that the server gave after the snapshot.
  void resume(std::uint32_t rank, const Request& request);

 private:
  bool pass(std::uint32_t rank, const Request& request);
  void join_optimizer(std::uint32_t rank, const Request& request);
  void end(std::uint32_t rank, const Request& request, const std::string& failure);
  std::string perform(Recorded recorded);
  void set_optimizer(Recorded recorded, UpdateRule rule, std::uint64_t weights);

  JobState& job_;
  KeyUpdates& updates_;
};

}  // namespace heddle::kv_detail
