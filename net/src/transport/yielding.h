// Decides when a thread that spins yields its core.
#pragma once

#include <chrono>
#include <thread>

namespace heddle::net_detail {

// Other threads may send or consume messages, or wait for a server as this one does: they need the core for
// microseconds. A thread that computes gives it back only after milliseconds, each time: then this one does
// not yield for a while. One long absence does not count, as threads that wait without yielding cost a time
// slice each. One thread.
class Yielding {
 public:
  using Clock = std::chrono::steady_clock;

  bool allows(Clock::time_point now) const { return now >= from_; }
  void yield(Clock::time_point now) {
    std::this_thread::yield();
    was_away(now, Clock::now());
  }
  // The thread has yielded, and was without a core from `from` until `until`.
  void was_away(Clock::time_point from, Clock::time_point until) {
    absences_ = until - from > kLongAbsence ? absences_ + 1 : 0;
    if (absences_ < kMostAbsences) return;
    absences_ = 0;
    from_ = until + kPause;
  }

 private:
  static constexpr std::chrono::milliseconds kLongAbsence{1}, kPause{250};
  static constexpr int kMostAbsences = 3;  // most long absences in a row
  int absences_ = 0;                       // long absences in a row so far
  Clock::time_point from_{};
};

}  // namespace heddle::net_detail
