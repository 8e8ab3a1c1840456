// When a thread that spins lets others run on its core.
#pragma once

#include <chrono>
#include <thread>

namespace heddle::kv_detail {

// Another thread may be the one that sends or consumes messages, or one of several that wait for a server as this one does, and
// then needs microseconds. If it is a thread that computes, this one gets the core back only after milliseconds, each time: then
// it yields no more for a while. One long absence does not count: threads that wait and do not yield cost the others a
// slice of time each, after which none of these would. One thread.
class Yielding {
 public:
  using Clock = std::chrono::steady_clock;

  bool allows(Clock::time_point now) const { return now >= from_; }
  void yield(Clock::time_point now) {
    std::this_thread::yield();
    was_away(now, Clock::now());
  }
  // The thread has yielded, and has had no core meanwhile.
  void was_away(Clock::time_point from, Clock::time_point until) {
    absences_ = until - from > kLongAbsence ? absences_ + 1 : 0;
    if (absences_ < kMostAbsences) return;
    absences_ = 0;
    from_ = until + kPause;
  }

 private:
  static constexpr std::chrono::milliseconds kLongAbsence{1}, kPause{250};
  static constexpr int kMostAbsences = 3;  // in a row
  int absences_ = 0;                       // long ones
  Clock::time_point from_{};
};

}  // namespace heddle::kv_detail
