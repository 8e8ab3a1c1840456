// Inits, pulls and get_states, which are answered now or wait at a key.
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
  // Answers those of the requests at the key that need not wait any longer.
  void answer(JobKey& key);
  // The same, and fails those that wait for a value which worker 0 will not send any more.
  void answer_without_absent(JobKey& key);
  void fail(JobKey& key, const std::string& why);
  void forget(std::uint32_t rank);  // the worker repeats requests without an answer
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
