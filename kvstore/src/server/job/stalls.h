// Reports for the server's log: workers of a job that have never come, and workers that wait for each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "server/job/job_state.h"

namespace heddle::kv_detail {

constexpr std::chrono::seconds kReportMissing{5};  // time until ranks that have not come are named

class Stalls {
 public:
  Stalls(const JobState& job, Clock::time_point now) : job_(job), begun_(now), since_(now) {}

  Clock::time_point begun() const { return begun_; }  // when the job began
  void progress(Clock::time_point now);               // a worker has joined or sent a request
  void workers_changed() { text_.clear(); }
  void paused(Clock::duration time);
  std::string take_missing(Clock::time_point now);  // ranks that have never come; after 5 s, then each 15 s
  std::string take_stall(Clock::time_point now);    // which workers wait for which
  // The stall that take_stall() found last, for a worker that waits itself; empty for others, and once there was progress.
  std::string text_for(std::uint32_t rank) const { return is_waiting(rank) ? text_ : ""; }

 private:
  bool is_waiting(std::uint32_t rank) const;
  bool are_all_waiting() const;  // every worker that others may wait for waits itself
  std::string waits() const;     // for each worker that waits, the first thing that it waits for
  std::string wait_of(std::uint32_t rank) const;  // empty: it waits for nothing

  const JobState& job_;
  Clock::time_point begun_, since_;                // since_: the latest progress
  Clock::duration missing_after_{kReportMissing};  // time of the next report of missing workers, after begun_
  Clock::duration stall_after_{};                  // time of the next report of a stall, after since_
  std::string text_{};                             // which workers wait for which; empty: not looked at yet
};

}  // namespace heddle::kv_detail
