#include "tcp/fate.h"

#include <utility>

#include <heddle/comm_error.h>
#include <heddle/error.h>

namespace heddle::detail {

void Failure::raise() const {
  switch (type) {
    case Type::mismatch:
      throw CommMismatch(text);
    case Type::lost:
      throw PeerLost(text, rank);
    case Type::silent:
      throw PeerSilent(text, rank);
    case Type::aborted:
      break;
  }
  throw CommAborted(text);
}

std::string message_of(const std::exception_ptr& error) {
  ErrorReport report;
  report.exception = error;
  return report.message();
}

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

}  // namespace heddle::detail
