// What one rank of a tcp communicator knows of the others, shared by the thread that calls and the control thread.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "core/failure.h"
#include "net/socket.h"

namespace heddle::comm_detail {

// Thread-safe. The first failure is the one that counts, for good.
class FaultState {
 public:
  explicit FaultState(int size);

  // False if something else had failed before. Wakes both threads.
  bool fail(Failure failure);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Throws the first failure; only after failed().
  [[noreturn]] void raise() const;
  Failure failure() const;

  // The rank has said that it leaves: nothing more comes from it than what is on its way.
  void set_left(int rank);
  bool left(int rank) const { return left_[static_cast<std::size_t>(rank)].load(std::memory_order_acquire); }

  // Readable after any of the above has changed, until told to be quiet: one for each of the two threads.
  Alarm& caller_alarm() { return caller_alarm_; }
  Alarm& control_thread_alarm() { return control_thread_alarm_; }

 private:
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;  // guards failure_; nothing is locked under it
  Failure failure_;
  std::vector<std::atomic<bool>> left_;
  Alarm caller_alarm_, control_thread_alarm_;
};

}  // namespace heddle::comm_detail
