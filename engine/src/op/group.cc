#include "op/group.h"

#include <heddle/error.h>
#include <heddle/op.h>

namespace heddle {

Cancelled::Cancelled(Why why)
    : Error(why == Why::cancelled ? "its group was cancelled" : "its group's deadline has passed"),
      why_(why) {}

Group::Group() : state_(std::make_shared<detail::GroupState>()) {}

void Group::cancel() noexcept { state_->cancelled.store(true, std::memory_order_release); }

void Group::set_deadline(std::chrono::steady_clock::time_point deadline) noexcept {
  state_->deadline.store(deadline.time_since_epoch().count(), std::memory_order_release);
}

bool Group::cancelled() const noexcept {
  return state_->cancelled.load(std::memory_order_acquire) || state_->overdue();
}

bool RunContext::cancelled() const noexcept {
  return group && (group->cancelled.load(std::memory_order_acquire) || group->overdue());
}

std::exception_ptr detail::GroupState::cancellation() const {
  if (cancelled.load(std::memory_order_acquire)) {
    return std::make_exception_ptr(Cancelled(Cancelled::Why::cancelled));
  }
  return overdue() ? std::make_exception_ptr(Cancelled(Cancelled::Why::overdue)) : nullptr;
}

}  // namespace heddle
