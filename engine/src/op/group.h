// The state behind a Group.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>

#include <heddle/group.h>

namespace heddle::detail {

struct GroupState {
  using Clock = std::chrono::steady_clock;
  // acquire and release: a thread that finds the group cancelled sees what the canceller wrote before.
  std::atomic<bool> cancelled{false};
  std::atomic<Clock::rep> deadline{Clock::time_point::max().time_since_epoch().count()};

  bool overdue() const noexcept {
    const Clock::rep until = deadline.load(std::memory_order_acquire);
    // Most groups have no deadline, and reading the clock costs more than the rest.
    return until != Clock::time_point::max().time_since_epoch().count() &&
           Clock::now().time_since_epoch().count() >= until;
  }
  // False at the first call, true at all others. The error log needs one report per group, not one per op.
  bool reported() const noexcept { return reported_.exchange(true, std::memory_order_relaxed); }
  // The Cancelled with which an op fails if it would start now; null if it may start.
  std::exception_ptr cancellation() const;

 private:
  mutable std::atomic<bool> reported_{false};
};

}  // namespace heddle::detail
