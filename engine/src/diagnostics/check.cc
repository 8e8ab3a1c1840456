#include <cstdlib>
#include <mutex>
#include <string_view>

#include <heddle/check.h>

#include "core/core.h"
#include "core/thread_state.h"
#include "stream/fence_set.h"
#include "stream/stream_work.h"

namespace heddle {

using namespace detail;

namespace {

bool wanted_by_environment() {
  const char* value = std::getenv("HEDDLE_CHECK");
  return value && *value && std::string_view(value) != "0";
}

const void* this_thread() {
  thread_local char place;
  return &place;
}

// op_of_this_thread(), declared() and change_in_flight() are the checker's only use of the core.

const OpNode* op_of_this_thread(const VarState& var) { return var.core->current_function(); }

const char* declared(const OpNode& op, const VarState& var) {
  for (std::uint32_t i = 0; i < op.access_count; ++i) {
    if (op.accesses()[i].var == &var) return op.accesses()[i].mutates ? "write" : "read";
  }
  return "nothing";
}

bool change_in_flight(VarState& var) {
  if (var.core->forked()) return false;  // another thread of the parent may have kept the lock
  var.core->scheduler().enter_submitted();
  std::lock_guard guard(var.lock);
  if (var.writer) return true;
  if (const FenceSet* fences = var.fences.load(std::memory_order_acquire); fences && fences->writing())
    return true;
  for (const AccessNode* access = var.head; access; access = access->next) {
    if (access->mutates) return true;
  }
  return false;
}

const char* name_of(check::AccessKind touch) { return touch == check::AccessKind::read ? "read" : "write"; }

[[noreturn]] void fail(const OpNode& op, const char* declaration, check::AccessKind touch,
                       const std::string& data) {
  throw UndeclaredAccess("op '" + std::string(op.name) + "' pushed at " + op.where.file_name() + ":" +
                         std::to_string(op.where.line()) + " touched what it did not declare: " + data +
                         "; declared: " + declaration + "; touched: " + name_of(touch));
}

}  // namespace

std::atomic<bool> detail::checking{wanted_by_environment()};

namespace check {

const char* running_op() {
  for (const ThreadState* frame = &this_thread_state; frame; frame = frame->outer) {
    if (const OpNode* op = frame->function()) return op->name;
  }
  return nullptr;
}

void enable(bool on) { checking.store(on, std::memory_order_relaxed); }

void Record::made(const Var& var) {
  const OpNode* op = op_of_this_thread(*var.state());
  maker_ = op;
  maker_sequence_ = op ? op->sequence : 0;
}

void Record::pushed() { pusher_.store(this_thread(), std::memory_order_relaxed); }

void Record::check_access(const Var& var, AccessKind touch,
                          const std::function<std::string()>& describe) const {
  const OpNode* op = op_of_this_thread(*var.state());
  if (op) {
    const std::string_view declaration = declared(*op, *var.state());
    if (declaration == "write" || declaration == name_of(touch)) return;
    const bool made_here = op == maker_ && op->sequence == maker_sequence_;
    if (!made_here) fail(*op, declaration.data(), touch, describe());
  }
  if (InStreamWork::here()) return;  // it is not known to which op the stream's work belongs
  if (pusher_.load(std::memory_order_relaxed) != this_thread() || !change_in_flight(*var.state())) return;
  throw UndeclaredAccess(describe() + " was touched (" + name_of(touch) +
                         ") while an op that changes it is in flight; wait for it first");
}

}  // namespace check
}  // namespace heddle
