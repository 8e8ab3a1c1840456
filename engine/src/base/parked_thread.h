// What a thread that is parked waits on, see idle_workers.h.
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
  bool woken_ = false, shall_monitor_ = false;
  int woken_from_ = kNoCore;  // the core of who woke it
  bool kept_off_ = false;     // that core, until it is up; before, it had
  cpu_set_t cores_;
};

// What a monitor finds when it looks.
enum class MonitorResult { again, unpark, park };

}  // namespace heddle::detail
