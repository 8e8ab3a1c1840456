// The object that one thread parks on, see idle_workers.h.
#pragma once

#include <condition_variable>

#include "base/cores.h"

namespace heddle::detail {

class ParkedThread {
 public:
  // Called by the thread itself once it is awake: whether it woke on its waker's core.
  bool woken_beside_waker() const { return waker_core_ != kNoCore && waker_core_ == this_core(); }

 private:
  friend class IdleWorkers;
  std::condition_variable wake_;
  // woken_, become_monitor_ and waker_core_ are guarded by IdleWorkers::mutex_.
  bool woken_ = false, become_monitor_ = false;
  int waker_core_ = kNoCore;  // core of the thread that woke this one; kNoCore: none has
};

// What the monitor does after a check: checks again, stops being parked to take the work, or stops checking
// and stays parked.
enum class MonitorResult { again, unpark, park };

}  // namespace heddle::detail
