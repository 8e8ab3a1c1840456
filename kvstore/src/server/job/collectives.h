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

  // A worker that repeats its call, since its connection was lost, gets the old answer.
  void call(std::uint32_t rank, const Request& request);
  // Answers the pending calls, if all workers have made them that others wait for.
  void complete(Recorded recorded);
  // The worker is back after the job was restored. It may have had answers that came after the snapshot.
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
