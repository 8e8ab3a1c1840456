#include "scheduler/fuzz_ops.h"

#include <utility>

namespace heddle::detail {

FuzzOps::Op* FuzzOps::find(std::uint64_t op) {
  const auto at = ops_.find(op);
  return at == ops_.end() ? nullptr : &at->second;
}

// From time to time, removes readers that have ended, since a var may be read again and again without ever
// being mutated.
void FuzzOps::add_reader(Use& use, std::uint64_t op) {
  if (use.readers.size() >= use.trim_at) {
    std::erase_if(use.readers, [this](std::uint64_t reader) { return !ops_.contains(reader); });
    use.trim_at = 2 * use.readers.size() + 64;
  }
  use.readers.push_back(op);
}

// The dependency rule of op/tracker.h: a read comes after the last mutation, a mutation after the reads since then.
void FuzzOps::enter(const OpNode& op) {
  Op& entered = ops_[op.sequence];
  for (std::uint32_t i = 0; i < op.access_count; ++i) {
    const AccessNode& access = op.accesses()[i];
    Use& use = uses_[access.var];
    if (use.writer != kNoOp) entered.after.push_back(use.writer);
    if (access.mutates) {
      entered.after.insert(entered.after.end(), use.readers.begin(), use.readers.end());
      use = {op.sequence, {}};
    } else {
      add_reader(use, op.sequence);
    }
  }
}

void FuzzOps::end(std::uint64_t op) { ops_.erase(op); }
void FuzzOps::forget(const VarState& var) { uses_.erase(&var); }

void FuzzOps::called(const OpNode& op) {
  if (Op* one = find(op.sequence)) one->is_called = true;
}

void FuzzOps::returned(std::uint64_t op) {
  if (Op* one = find(op)) one->is_called = false;
}

void FuzzOps::add_ready(OpNode* op) {
  if (Op* one = find(op->sequence)) {
    one->at = ready_.size();
    if (one->needed_by) one->needed_by->ready.push_back(op->sequence);
  }
  ready_.push_back(op);
}

OpNode* FuzzOps::take(std::size_t at) {
  std::swap(ready_[at], ready_.back());
  OpNode* op = ready_.back();
  if (Op* moved = find(ready_[at]->sequence)) moved->at = at;
  if (Op* taken = find(op->sequence)) taken->at = kNowhere;
  ready_.pop_back();
  return op;
}

OpNode* FuzzOps::take_needed(NeededOps& needed, std::mt19937_64& random) {
  while (!needed.ready.empty()) {
    std::swap(needed.ready[random() % needed.ready.size()], needed.ready.back());
    const Op* op = find(needed.ready.back());
    needed.ready.pop_back();
    if (op && op->at != kNowhere) return take(op->at);
  }
  return nullptr;
}

void FuzzOps::begin_wait(const VarState& var, const OpNode& inside, NeededOps& needed) {
  needed.inside = inside.sequence;
  if (Op* const one = find(needed.inside)) needed.was_called = std::exchange(one->is_called, true);
  std::vector<std::uint64_t> next;
  if (const auto use = uses_.find(&var); use != uses_.end()) next.push_back(use->second.writer);
  while (!next.empty()) {
    const std::uint64_t number = next.back();
    next.pop_back();
    Op* op = find(number);
    if (!op || op->needed_by == &needed) continue;
    needed.ops.push_back(number);
    needed.also.push_back(std::exchange(op->needed_by, &needed));
    needed.suspended |= op->is_called;
    if (op->at != kNowhere) needed.ready.push_back(number);
    next.insert(next.end(), op->after.begin(), op->after.end());
  }
}

// As a rule all needed ops have ended by now. If the wait was given up, those that have not ended are handed
// back to the outer waits that need them.
void FuzzOps::end_wait(NeededOps& needed) {
  if (Op* const one = find(needed.inside)) one->is_called = needed.was_called;
  for (std::size_t i = 0; i < needed.ops.size(); ++i) {
    Op* op = find(needed.ops[i]);
    if (!op) continue;
    op->needed_by = needed.also[i];
    if (op->needed_by && op->at != kNowhere) op->needed_by->ready.push_back(needed.ops[i]);
  }
}

}  // namespace heddle::detail
