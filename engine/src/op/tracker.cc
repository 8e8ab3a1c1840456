#include "op/tracker.h"

#include <mutex>

#include "op/failure.h"
#include "trace/trace.h"

namespace heddle::detail {
namespace {

bool grant_at_once(VarState& var, const AccessNode& access) {
  if (var.head || var.writer) return false;
  if (!access.mutates) {
    ++var.readers_running;
    return true;
  }
  if (var.readers_running > 0) return false;
  var.writer = &access;
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

// op.waiting counts the op's accesses that are not granted. With one access there is nothing to count.
void grant(AccessNode& access, std::uint64_t by, ReadyList& ready) {
  access.granted = true;
  OpNode& op = *access.op;
  // acq_rel: the thread that runs the op sees what the ops before it wrote, on every var.
  if (op.access_count != 1 && op.waiting.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (by != trace::kNone) [[unlikely]]
    op.set_released_by(by);
  ready.push_back(&op);
}

void grant_next(VarState& var, std::uint64_t by, ReadyList& ready) {
  if (var.writer) return;
  while (var.head && !var.head->mutates) {
    ++var.readers_running;
    grant(*pop(var), by, ready);
  }
  if (var.head && var.readers_running == 0) {
    AccessNode* access = pop(var);
    var.writer = access;
    grant(*access, by, ready);
  }
}

void release_var(const AccessNode& access, const FailurePtr& failure, std::uint64_t by, ReadyList& ready) {
  VarState& var = *access.var;
  FailurePtr old;  // `old` is freed outside the lock
  bool last;
  {
    std::lock_guard guard(var.lock);
    if (access.mutates) {
      if ((var.poison || failure) && !access.keeps_poison) {
        old = std::move(var.poison);
        var.poison = failure;
      }
      var.writer = nullptr;
    } else {
      --var.readers_running;
    }
    grant_next(var, by, ready);
    last = var.dropped && var.idle();
  }
  if (last) delete &var;
}

}  // namespace

bool enter(OpNode& op) {
  const std::uint32_t count = op.access_count;
  AccessNode* const accesses = op.accesses();
  op.waiting.store(count + 1, std::memory_order_relaxed);
  std::uint32_t granted = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    AccessNode& access = accesses[i];
    VarState& var = *access.var;
    std::lock_guard guard(var.lock);
    access.granted = grant_at_once(var, access);
    if (access.granted) {
      ++granted;
    } else {
      append(var, access);
    }
  }
  if (granted == count) return true;
  // With one access the op may be granted, run and freed by now.
  if (count == 1) return false;
  return op.waiting.fetch_sub(granted + 1, std::memory_order_acq_rel) == granted + 1;
}

void release_accesses(OpNode& op, const FailurePtr& failure, ReadyList& ready) {
  AccessNode* const accesses = op.accesses();
  const std::uint64_t by = trace::on() ? op.sequence : trace::kNone;
  for (std::uint32_t i = 0; i < op.access_count; ++i) release_var(accesses[i], failure, by, ready);
}

void delete_var(VarState& var) noexcept {
  bool last;
  {
    std::lock_guard guard(var.lock);
    var.dropped = true;
    last = var.idle();
  }
  if (last) delete &var;
}

}  // namespace heddle::detail
