// Limits some work to a share of a thread's time.
#pragma once

#include <algorithm>
#include <chrono>

namespace heddle::net_detail {

// Decides when the next piece of some work may begin, so that all of it takes 1 / `parts` of the time, and
// `burst` of work at once after a rest. One thread.
class TimeBudget {
 public:
  using Clock = std::chrono::steady_clock;
  TimeBudget(int parts, Clock::duration burst) : parts_(parts), burst_(burst * parts) {}

  bool allows(Clock::time_point now) const { return now >= next_; }
  Clock::time_point next() const { return next_; }
  void spend(Clock::time_point begin, Clock::time_point end) {
    next_ = std::max(next_, begin - burst_) + (end - begin) * parts_;
  }

 private:
  const int parts_;
  const Clock::duration burst_;
  Clock::time_point next_{};
};

}  // namespace heddle::net_detail
