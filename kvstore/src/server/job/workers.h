// The workers of a job: who is there, and whom the others wait for.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "server/job/job_worker.h"
#include "server/key/push.h"

namespace heddle::kv_detail {

class Workers {
 public:
  using Calls = std::map<std::uint32_t, Request>;  // barriers and set_optimizers by the rank of the worker

  Workers(const std::string& job, std::uint32_t count, Clock::time_point now);
  std::uint32_t size() const { return static_cast<std::uint32_t>(all_.size()); }
  JobWorker& operator[](std::uint32_t rank) { return all_[rank]; }
  const JobWorker& operator[](std::uint32_t rank) const { return all_[rank]; }
  std::vector<JobWorker>::iterator begin() { return all_.begin(); }
  std::vector<JobWorker>::iterator end() { return all_.end(); }
  const std::vector<JobWorker>& all() const { return all_; }

  const Required& required() const { return required_; }
  const Required& pushing() const { return pushing_; }  // required workers without a pending collective
  bool is_connected(const Hello& hello) const;  // whether another process with the hello's rank is connected
  bool has_had(const Hello& hello) const;       // whether the process of the hello has joined the job already
  bool are_gone() const;                        // whether all workers have left or were dropped
  bool is_silent(std::uint32_t rank, Clock::time_point now, Clock::duration timeout) const;

  void join(std::uint32_t rank);
  void leave(std::uint32_t rank);
  void drop(std::uint32_t rank);
  void paused(Clock::duration time);  // does not count `time` as time in which workers were silent

  // Barriers and set_optimizers that wait, because other workers have not sent theirs.
  const Calls& calls() const { return calls_; }
  bool has_called(std::uint32_t rank) const { return calls_.contains(rank); }
  bool have_all_called() const;  // whether all required() workers have sent a barrier or set_optimizer
  void add_call(std::uint32_t rank, const Request& request);
  void drop_call(std::uint32_t rank);
  Calls take_calls();

 private:
  void update(std::uint32_t rank);

  std::vector<JobWorker> all_;
  Required required_, pushing_;
  Calls calls_{};
};

}  // namespace heddle::kv_detail
