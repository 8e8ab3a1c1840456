// For threads that look for something again and again: lets others run, and goes to another core if somebody did.
//
// Two ranks on one core take turns at the cost of a switch a message, and some kernels keep them there beside an idle
// core: since Linux 6.12 a thread that is woken may stay on its waker's.
#pragma once

#include <chrono>

namespace heddle::comm_detail {

// One thread at a time.
class CoreShare {
 public:
  void yield();

 private:
  std::chrono::steady_clock::time_point left_{};  // a core, the last time
};

}  // namespace heddle::comm_detail
