#include "tcp/fate.h"

#include <utility>

namespace heddle::comm_detail {

Fate::Fate(int size) : left_(static_cast<std::size_t>(size)) {}

bool Fate::fail(Failure failure) {
  {
    std::lock_guard lock(mutex_);
    if (failed_.load(std::memory_order_relaxed)) return false;
    failure_ = std::move(failure);
    failed_.store(true, std::memory_order_release);
  }
  caller_alarm_.ring();
  keeper_alarm_.ring();
  return true;
}

void Fate::raise() const { failure().raise(); }

Failure Fate::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void Fate::set_left(int rank) {
  left_[static_cast<std::size_t>(rank)].store(true, std::memory_order_release);
  caller_alarm_.ring();
}

}  // namespace heddle::comm_detail
