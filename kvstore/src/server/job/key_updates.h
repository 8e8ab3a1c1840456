// Changes of keys: by inits, pushes and set_states of workers, and by rounds that are completed without a
// worker.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/job/admission.h"
#include "server/job/job_state.h"
#include "server/job/key_change.h"
#include "server/job/waiting_requests.h"

namespace heddle::kv_detail {

class KeyUpdates {
 public:
  KeyUpdates(JobState& job, Admission& admission, WaitingRequests& waiting)
      : job_(job), admission_(admission), waiting_(waiting) {}

  // init(), push() and set_state() are called when a piece of the request's payload has been received. All
  // functions that get a request throw MalformedMessage.
  void init(std::uint32_t rank, const Request& request, std::size_t payload);
  void push(std::uint32_t rank, const Request& request, std::size_t payload);
  void set_state(std::uint32_t rank, const Request& request, std::size_t payload);
  // Does the pushes of a push_many one by one in order, and sends one reply.
  void push_many(std::uint32_t rank, const Request& request);
  void clear_errors(std::uint32_t rank, const Request& request);
  // Called when other workers than before are waited for: completes rounds, and answers requests that have
  // waited for them.
  void complete_rounds(Recorded recorded);
  // Called when the update rule has changed: deletes the optimizer state of all keys.
  void reset_optimizers(Recorded recorded);

 private:
  void push_one(std::uint32_t rank, const Request& request, std::span<const std::byte> value);
  bool replace_at_once(std::uint32_t rank, const Request& request, std::span<const std::byte> value,
                       JobKey& key);
  template <class F>
  void apply(Recorded recorded, std::uint32_t rank, const Request& request, JobKey& key, F push);
  std::optional<KeyOptimizer> optimizer_in(const std::vector<std::byte>& state, const Request& request,
                                           const JobKey& key, std::string& why);
  void reserve_for_waiting(Recorded recorded, JobKey& key);

  JobState& job_;
  Admission& admission_;
  WaitingRequests& waiting_;
};

}  // namespace heddle::kv_detail
