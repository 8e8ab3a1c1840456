// State that a waiting thread shares with its wait op, which is queued on the var.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "op/failure_ptr.h"

namespace heddle::detail {

struct OpNode;

// The time at which a wait is given up.
using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNever = Deadline::max();

// Wakes a thread whose wait has a time limit.
struct TimedWait {
  std::mutex mutex;
  std::condition_variable over;  // signalled when WaitState::done is set
};

struct WaitState {
  WaitState() = default;
  ~WaitState() { delete timed_wait.load(std::memory_order_relaxed); }
  WaitState(const WaitState&) = delete;
  WaitState& operator=(const WaitState&) = delete;

  // The op inside which the thread waits, if any. That op cannot end before the wait. Guarded by OpWaits::mutex
  // once the wait op is submitted.
  OpNode* resumes = nullptr;
  // The ops below `resumes` on that thread's stack, which end later than `resumes`. Guarded by OpWaits::mutex
  // too.
  std::vector<OpNode*> beneath;
  bool leave_to_others = false;      // true: the waiting thread runs no ops meanwhile
  std::atomic<bool> entered{false};  // whether the wait op is queued on its var
  std::atomic<std::uint32_t> done{0};
  std::atomic<TimedWait*> timed_wait{nullptr};  // made by the waiting thread when it first needs one
  // The error of the var at the wait's position in push order; written before done.
  FailurePtr poison;
  // For the trace: the op whose end ended the wait, if it is known. Written before done.
  std::uint64_t released_by = ~std::uint64_t{0};
};

}  // namespace heddle::detail
