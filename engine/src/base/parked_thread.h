// What one thread parks on, see idle_workers.h.
#pragma once

#include <condition_variable>

#include "base/cores.h"

namespace heddle::detail {

class ParkedThread {
 public:
  // For the thread itself, once it is awake: a waker has woken it, and on the waker's own core.
  bool woken_beside_waker() const { return waker_core_ != kNoCore && waker_core_ == this_core(); }

 private:
  friend class IdleWorkers;
  std::condition_variable wake_;
  // Guarded by IdleWorkers::mutex_:
  bool woken_ = false, become_monitor_ = false;
  int waker_core_ = kNoCore;  // kNoCore: not by a waker
};

// What the monitor does after a check: check again, take up the work, or stop checking and stay parked.
enum class MonitorResult { again, unpark, park };

}  // namespace heddle::detail
