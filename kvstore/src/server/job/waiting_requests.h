// Answers inits, pulls and get_states. A request that cannot be answered yet waits at a key.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/job/job_state.h"

namespace heddle::kv_detail {

class WaitingRequests {
 public:
  explicit WaitingRequests(JobState& job) : job_(job) {}

  // Answers the request, or lets it wait. Throws MalformedMessage.
  void answer_or_wait(WaitingRequest request);
  // Answers the requests that wait at the key, except those that still have to wait.
  void answer(JobKey& key);
  // Does answer(). Then fails requests that wait for the key's first value, if worker 0, which would send it,
  // is gone.
  void answer_without_absent(JobKey& key);
  void fail(JobKey& key, const std::string& why);
  // Drops all requests of the worker, which repeats unanswered requests when it connects again.
  void forget(std::uint32_t rank);
  void forget_all();

 private:
  std::vector<WaitingRequest> take(JobKey& key);
  void add(JobKey& key, WaitingRequest request);
  bool answer_now(WaitingRequest& request, const JobKey* at);
  bool answer_init(WaitingRequest& init, const JobKey* at);
  void send_state(const WaitingRequest& request, const JobKey& key);
  void send_values(const WaitingRequest& pull, std::uint64_t staleness);
  Payload values_of(const Request& pull);
  void send_rows(const WaitingRequest& pull, const JobKey& key);
  void send_compressed(const WaitingRequest& pull, const JobKey& key);
  bool has_room(const WaitingRequest& request, const JobKey& key, std::uint64_t bytes);

  JobState& job_;
};

}  // namespace heddle::kv_detail
