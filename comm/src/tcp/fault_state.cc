#include "tcp/fault_state.h"

#include <utility>

namespace heddle::comm_detail {

FaultState::FaultState(int size) : left_(static_cast<std::size_t>(size)) {}

bool FaultState::fail(Failure failure) {
  {
    std::lock_guard lock(mutex_);
    if (failed_.load(std::memory_order_relaxed)) return false;
    failure_ = std::move(failure);
    failed_.store(true, std::memory_order_release);
  }
  caller_event_.signal();
  control_thread_event_.signal();
  return true;
}

void FaultState::raise() const { failure().raise(); }

Failure FaultState::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void FaultState::set_left(int rank) {
  left_[static_cast<std::size_t>(rank)].store(true, std::memory_order_release);
  caller_event_.signal();
}

}  // namespace heddle::comm_detail
