// What one thread parks on, see idle_workers.h.
#pragma once

#include <condition_variable>
#include <unistd.h>

#include "base/cores.h"

namespace heddle::detail {

class ParkedThread {
  friend class IdleWorkers;
  std::condition_variable wake_;
  const pid_t thread_ = gettid();
  // Guarded by IdleWorkers::mutex_:
  bool woken_ = false, become_monitor_ = false;
  int waker_core_ = kNoCore;
  bool waker_core_excluded_ = false;  // from the thread's affinity, until it runs again; before, that was:
  cpu_set_t affinity_;
};

// What the monitor does after a check: check again, take up the work, or stop checking and stay parked.
enum class MonitorResult { again, unpark, park };

}  // namespace heddle::detail
