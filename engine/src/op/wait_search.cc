#include "op/wait_search.h"

namespace heddle::detail {

void WaitSearch::visit(OpNode* op) {
  if (!op || !seen_.insert(op).second) return;
  if (op->wait_state() == &target_) found_ = true;
  ops_.push_back(op);
}

void WaitSearch::visit_waiter(const WaitState& wait) {
  visit(wait.resumes);
  for (OpNode* op : wait.beneath) visit(op);
}

void WaitSearch::restart() {
  passed_.clear();
  seen_.clear();
  ops_.clear();
  followers_.clear();
  given_up_ = waits_.given_up;
  started_ = true;
  visit(&from_);
  visit_waiter(target_);
}

void WaitSearch::expand(OpNode& op) {
  for (std::uint32_t i = 0; i < op.access_count; ++i) {
    const AccessNode& access = op.accesses()[i];
    std::lock_guard guard(access.var->lock);
    if (AccessNode* first = access.granted ? access.var->head : access.next)
      followers_.push_back({&access, first});
  }
  if (op.extra && op.extra->wait) visit_waiter(*op.extra->wait);
}

// An access that mutates is waited for by all followers up to the next mutation, a read by that mutation alone. The
// reads that are queued beside a read do not wait for `from_`; once they are granted, they may run and be freed.
void WaitSearch::step() {
  if (followers_.empty()) {
    OpNode* op = ops_.back();
    ops_.pop_back();
    return expand(*op);
  }
  const auto [access, queued] = followers_.back();
  followers_.pop_back();
  VarState& var = *access->var;
  OpNode* waits = nullptr;
  {
    std::lock_guard guard(var.lock);
    AccessNode* follower = access->mutates || !access->granted ? queued : var.head;
    if (!follower) return;
    if (access->mutates || follower->mutates) waits = follower->op;
    // Reads of a var that queue behind each other are followed by the same accesses. `passed_` has the reads that the
    // search has been at, so that it follows each row of reads once.
    const bool goes_on =
        !follower->mutates && (access->mutates || passed_.insert({follower->op->sequence, &var}).second);
    if (goes_on && follower->next) followers_.push_back({access, follower->next});
  }
  visit(waits);
}

std::optional<bool> WaitSearch::look(std::size_t steps, IfFound if_found) {
  std::lock_guard guard(waits_.mutex);
  if (!started_ || given_up_ != waits_.given_up) restart();
  for (; steps > 0 && !found_; --steps) {
    if (ops_.empty() && followers_.empty()) return false;
    step();
  }
  if (!found_) return std::nullopt;
  if (if_found == IfFound::give_up) waits_.give_up(target_);
  return true;
}

}  // namespace heddle::detail
