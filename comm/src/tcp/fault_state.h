// The failure of a tcp communicator and the ranks that have left it, shared by the caller and the control thread.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "connection/socket.h"
#include "core/failure.h"

namespace heddle::comm_detail {

using namespace net_detail;

// The state of failures of a communicator. Thread-safe. The first failure is kept for good.
class FaultState {
 public:
  explicit FaultState(int size);

  // Stores the failure, and wakes the caller and the control thread. False, and nothing is done, if there was
  // a failure before.
  bool fail(Failure failure);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Throws the first failure. Must be called only if failed() is true.
  [[noreturn]] void raise() const;
  Failure failure() const;

  // Records that the rank has sent its leave message. After that, only messages that were in transit then
  // still come from it.
  void set_left(int rank);
  bool left(int rank) const { return left_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire); }

  // One event for the caller and one for the control thread. They are signalled when there is a failure; the
  // caller's also when a leave message has been received.
  EventFd& caller_event() { return caller_event_; }
  EventFd& control_thread_event() { return control_thread_event_; }

 private:
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;  // guards failure_; no other mutex is locked while it is held
  Failure failure_;
  std::vector<std::atomic<bool>> left_;
  EventFd caller_event_, control_thread_event_;
};

}  // namespace heddle::comm_detail
