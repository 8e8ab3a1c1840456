// Yields the core of a spinning thread, and moves the thread to another core if another thread is using this
// core.
//
// Two ranks on one core need a context switch for each message, and some kernels leave the ranks on that core
// although another core is idle: since Linux 6.12 a woken thread may stay on the core of the thread that woke
// it.
#pragma once

#include <chrono>

namespace heddle::comm_detail {

// Whether the host has fewer cores than ranks, and this rank is not bound to cores of its own.
bool ranks_share_cores(int ranks_here);

// One thread at a time.
class CoreShare {
 public:
  // Lets another thread run on this core. `may_move`: whether the thread may then change to another core;
  // false if the ranks share cores, since no core is idle then.
  void yield(bool may_move);

 private:
  std::chrono::steady_clock::time_point left_{};  // when the thread was last moved
};

}  // namespace heddle::comm_detail
