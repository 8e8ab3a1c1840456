// The failure of a tcp communicator and the ranks that have left it, shared by the caller and the control thread.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "connection/socket.h"
#include "core/failure.h"

namespace heddle::comm_detail {

using namespace net_detail;

// Thread-safe. The first failure is kept for good.
class FaultState {
 public:
  explicit FaultState(int size);

  // False if there was a failure before. Otherwise wakes both threads.
  bool fail(Failure failure);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Throws the first failure; only after failed().
  [[noreturn]] void raise() const;
  Failure failure() const;

  // The rank has sent its leave message. Only messages that are already in transit still come from it.
  void set_left(int rank);
  bool left(int rank) const { return left_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire); }

  // Signalled when a failure or a leave message has been received; one for each of the two threads.
  EventFd& caller_event() { return caller_event_; }
  EventFd& control_thread_event() { return control_thread_event_; }

 private:
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;  // guards failure_; nothing is locked under it
  Failure failure_;
  std::vector<std::atomic<bool>> left_;
  EventFd caller_event_, control_thread_event_;
};

}  // namespace heddle::comm_detail
