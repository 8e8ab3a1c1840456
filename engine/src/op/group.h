// What is behind a Group.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>

#include <heddle/group.h>

namespace heddle::detail {

struct GroupState {
  using Clock = std::chrono::steady_clock;
  // acquire and release: who finds the group cancelled sees what the canceller wrote before.
  std::atomic<bool> cancelled{false};
  std::atomic<Clock::rep> deadline{Clock::time_point::max().time_since_epoch().count()};

  bool overdue() const noexcept {
    const Clock::rep until = deadline.load(std::memory_order_acquire);
    // Most groups have no deadline, and the clock costs more than the rest of the question.
    return until != Clock::time_point::max().time_since_epoch().count() &&
           Clock::now().time_since_epoch().count() >= until;
  }
  // One report a group is enough for those who wait for nothing: true but for the first call.
  bool reported() const noexcept { return reported_.exchange(true, std::memory_order_relaxed); }
  // The Cancelled that an op fails with that would start now; null if it may.
  std::exception_ptr cancellation() const;

 private:
  mutable std::atomic<bool> reported_{false};
};

}  // namespace heddle::detail
