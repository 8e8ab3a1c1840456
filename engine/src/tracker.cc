#include "tracker.h"

#include <mutex>
#include <unordered_set>
#include <vector>

#include "core.h"
#include "failure.h"

namespace heddle::detail {
namespace {

bool grant_at_once(VarState& var, const AccessNode& access) {
  if (var.head || var.writer_running) return false;
  if (!access.mutates) {
    ++var.readers_running;
    return true;
  }
  if (var.readers_running > 0) return false;
  var.writer_running = true;
  return true;
}

void append(VarState& var, AccessNode& access) {
  (var.tail ? var.tail->next : var.head) = &access;
  var.tail = &access;
}

AccessNode* pop(VarState& var) {
  AccessNode* access = var.head;
  var.head = access->next;
  if (!var.head) var.tail = nullptr;
  access->next = nullptr;
  return access;
}

void grant(AccessNode& access, ReadyList& ready) {
  access.granted = true;
  // acq_rel: whoever runs the op sees all that the ops before it on every var wrote.
  if (access.op->waiting.fetch_sub(1, std::memory_order_acq_rel) == 1) ready.push_back(access.op);
}

void grant_next(VarState& var, ReadyList& ready) {
  if (var.writer_running) return;
  while (var.head && !var.head->mutates) {
    ++var.readers_running;
    grant(*pop(var), ready);
  }
  if (var.head && var.readers_running == 0) {
    var.writer_running = true;
    grant(*pop(var), ready);
  }
}

// The busy reference keeps a var alive whose handles are gone while ops are queued on it.
void leave_var(const AccessNode& access, const std::shared_ptr<const Failure>& failure, ReadyList& ready) {
  VarState& var = *access.var;
  std::shared_ptr<const Failure> old;  // freed outside the lock
  bool now_idle;
  {
    std::lock_guard guard(var.lock);
    if (access.mutates) {
      old = std::move(var.poison);
      var.poison = failure;
      var.writer_running = false;
    } else {
      --var.readers_running;
    }
    grant_next(var, ready);
    now_idle = var.idle();
  }
  if (now_idle) release(&var);
}

class Search {
 public:
  void visit(OpNode* op) {
    if (op && seen_.insert(op).second) open_.push_back(op);
  }
  OpNode* next() {
    if (open_.empty()) return nullptr;
    OpNode* op = open_.back();
    open_.pop_back();
    return op;
  }
  // The queued ops that have to let `access` go first and no other: what is behind them is found from them. So each
  // access is looked at a bounded number of times, however long the queues are.
  void visit_followers(const AccessNode& access) {
    std::lock_guard guard(access.var->lock);
    AccessNode* follower = access.granted ? access.var->head : access.next;
    if (access.mutates) {
      for (; follower; follower = follower->next) {
        visit(follower->op);
        if (follower->mutates) break;
      }
    } else {
      while (follower && !follower->mutates) {
        if (!passed_.insert(follower).second) return;  // another read of this group went on from here
        follower = follower->next;
      }
      if (follower) visit(follower->op);
    }
  }

 private:
  std::unordered_set<const AccessNode*> passed_;
  std::unordered_set<OpNode*> seen_;
  std::vector<OpNode*> open_;
};

}  // namespace

bool enter(OpNode& op) {
  const std::uint32_t count = op.access_count;
  op.waiting.store(count + 1, std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < count; ++i) op.accesses[i].var->lock.lock();
  op.sequence = op.core->next_sequence();
  std::uint32_t granted = 1;
  for (std::uint32_t i = 0; i < count; ++i) {
    AccessNode& access = op.accesses[i];
    VarState& var = *access.var;
    // relaxed: the pusher holds a handle, this reference is only counted.
    if (var.idle()) var.refs.fetch_add(1, std::memory_order_relaxed);
    access.granted = grant_at_once(var, access);
    if (access.granted) {
      ++granted;
    } else {
      append(var, access);
    }
  }
  for (std::uint32_t i = 0; i < count; ++i) op.accesses[i].var->lock.unlock();
  return op.waiting.fetch_sub(granted, std::memory_order_acq_rel) == granted;
}

void leave(OpNode& op, const std::shared_ptr<const Failure>& failure, ReadyList& ready) {
  for (std::uint32_t i = 0; i < op.access_count; ++i) leave_var(op.accesses[i], failure, ready);
}

bool depends(WaitState& target, OpNode& from, bool abandon) {
  // One search at a time: a waiter that gives up ends its op, and another search must not be about to visit that.
  std::lock_guard guard(from.core->one_search);
  Search search;
  search.visit(&from);
  while (OpNode* op = search.next()) {
    if (op->wait.get() == &target) {
      if (abandon) target.resumes = nullptr;
      return true;
    }
    for (std::uint32_t i = 0; i < op->access_count; ++i) search.visit_followers(op->accesses[i]);
    search.visit(op->resumes);
    if (op->wait) search.visit(op->wait->resumes);
  }
  return false;
}

}  // namespace heddle::detail
