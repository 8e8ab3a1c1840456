// Reports for the server's log: workers of a job that have never come, and workers that wait for each other.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "server/job/job_state.h"

namespace heddle::kv_detail {

// Time from the begin of a job until ranks that have not come are reported.
constexpr std::chrono::seconds kReportMissing{5};

class Stalls {
 public:
  Stalls(const JobState& job, Clock::time_point now) : job_(job), begun_(now), since_(now) {}

  Clock::time_point begun() const { return begun_; }  // when the job began
  void progress(Clock::time_point now);  // to be called when a worker has joined, or has sent a request
  void workers_changed() { text_.clear(); }
  void paused(Clock::duration time);
  // Ranks that have never come, as text, if it is time to report them; else empty.
  std::string take_missing(Clock::time_point now);
  // Which workers wait for which, as text, if the job has stalled and it is time to report it; else empty.
  std::string take_stall(Clock::time_point now);
  // The stall that take_stall() has reported last, to tell a worker that waits. Empty for a worker that does
  // not wait, and after progress.
  std::string text_for(std::uint32_t rank) const { return is_waiting(rank) ? text_ : ""; }

 private:
  bool is_waiting(std::uint32_t rank) const;
  bool are_all_waiting() const;  // whether every worker that others may wait for waits itself
  std::string waits() const;     // text that says of each waiting worker what it waits for first
  std::string wait_of(std::uint32_t rank) const;  // what this worker waits for; empty: nothing

  const JobState& job_;
  Clock::time_point begun_, since_;                // since_: the latest progress
  Clock::duration missing_after_{kReportMissing};  // time of the next report of missing workers, after begun_
  Clock::duration stall_after_{};                  // time of the next report of a stall, after since_
  std::string text_{};  // which workers wait for which; empty: no stall was found since the latest progress
};

}  // namespace heddle::kv_detail
