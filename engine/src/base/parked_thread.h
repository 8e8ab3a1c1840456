// What one thread parks on, see idle_workers.h.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <unistd.h>

#include "base/cores.h"
#include "base/wake_policy.h"

namespace heddle::detail {

class ParkedThread {
 public:
  // For the thread itself, once it is awake: a waker has woken it, and on the waker's own core.
  bool woken_beside_waker() const {
    return woken_at_ > 0 && waker_core_ != kNoCore && waker_core_ == this_core();
  }

 private:
  friend class IdleWorkers;
  std::condition_variable wake_;
  const pid_t thread_ = gettid();
  // Guarded by IdleWorkers::mutex_:
  bool woken_ = false, become_monitor_ = false;
  std::uint64_t woken_at_ = 0;  // nanoseconds; 0: not by a waker
  int waker_core_ = kNoCore;
  WakeOn woken_on_ = WakeOn::any_core;
  cpu_set_t affinity_;  // what it was, if the waker's core was excluded until the thread runs again
};

// What the monitor does after a check: check again, take up the work, or stop checking and stay parked.
enum class MonitorResult { again, unpark, park };

}  // namespace heddle::detail
