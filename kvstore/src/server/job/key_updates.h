// What workers do to keys: inits, pushes, states of optimizers; and rounds that go on without a worker.
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

  // A piece of the request's payload has been received. All throw MalformedMessage.
  void init(std::uint32_t rank, const Request& request, std::size_t payload);
  void push(std::uint32_t rank, const Request& request, std::size_t payload);
  void set_state(std::uint32_t rank, const Request& request, std::size_t payload);
  // Several small pushes, done one by one in order, with one reply.
  void push_many(std::uint32_t rank, const Request& request);
  void clear_errors(std::uint32_t rank, const Request& request);
  // Completes rounds after a change of the workers that they wait for, and answers what has waited.
  void complete_rounds(Recorded recorded);
  // Deletes all state of optimizers, after a change of the update rule.
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
