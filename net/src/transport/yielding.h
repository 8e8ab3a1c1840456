// Decides when a thread that spins yields its core.
#pragma once

#include <chrono>
#include <thread>

namespace heddle::net_detail {

// Yields the core to other threads that send, consume or wait for messages, since they need it for
// microseconds. A thread that computes gives the core back only after milliseconds. So after several long
// absences in a row this thread does not yield for a while. A single long absence does not count, as threads
// that wait without yielding cost a time slice each. One thread.
class Yielding {
 public:
  using Clock = std::chrono::steady_clock;

  bool allows(Clock::time_point now) const { return now >= from_; }
  void yield(Clock::time_point now) {
    std::this_thread::yield();
    was_away(now, Clock::now());
  }
  // Called when the thread has yielded, and was without a core from `from` until `until`.
  void was_away(Clock::time_point from, Clock::time_point until) {
    absences_ = until - from > kLongAbsence ? absences_ + 1 : 0;
    if (absences_ < kMostAbsences) return;
    absences_ = 0;
    from_ = until + kPause;
  }

 private:
  static constexpr std::chrono::milliseconds kLongAbsence{1}, kPause{250};
  static constexpr int kMostAbsences = 3;  // long absences in a row that end yielding for a while
  int absences_ = 0;                       // long absences in a row so far
  Clock::time_point from_{};
};

}  // namespace heddle::net_detail
