#include "core.h"

#include <algorithm>

#include "fork.h"
#include "slab.h"
#include "tracker.h"

namespace heddle::detail {

ThreadState& this_thread_state() {
  thread_local ThreadState state;
  return state;
}

EngineCore::EngineCore(const EngineOptions& engine_options)
    : options(engine_options), generation_(fork_generation()) {}

bool EngineCore::forked() const { return generation_ != fork_generation(); }

void EngineCore::check_open() const {
  if (forked()) {
    throw Error(
        "this engine was made before fork(): its threads are in the parent process. default_engine() makes a "
        "new one here; arrays and vars made before the fork can be waited for, not computed with");
  }
  if (!open_.load(std::memory_order_relaxed)) throw Error("this engine has been shut down");
}

void EngineCore::shut_down() noexcept {
  if (forked()) return;
  if (current_op()) {  // std::exit inside an op: the process ends, this op never will
    errors.log_unseen();
    return;
  }
  wait_all();
  open_.store(false, std::memory_order_relaxed);
  stop();
  errors.log_unseen();
}

void EngineCore::release() noexcept {
  // In the child of a fork there are no threads to end, and what they held stays as it was.
  if (forked()) return;
  // acq_rel: the last one sees what all others did to the core before it deletes it.
  if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

InsideOp::InsideOp(EngineCore* core, OpNode* op, int worker) : outer_(this_thread_state()) {
  this_thread_state() = {core, op, worker, outer_.core ? &outer_ : nullptr};
}
InsideOp::~InsideOp() { this_thread_state() = outer_; }

OpNode* EngineCore::current_op() const {
  for (const ThreadState* frame = &this_thread_state(); frame; frame = frame->outer) {
    if (frame->core == this) return frame->op;
  }
  return nullptr;
}

void begin_blocking_everywhere() {
  for (const ThreadState* frame = &this_thread_state(); frame; frame = frame->outer) {
    if (frame->core) frame->core->begin_blocking();
  }
}

void end_blocking_everywhere() noexcept {
  for (const ThreadState* frame = &this_thread_state(); frame; frame = frame->outer) {
    if (frame->core) frame->core->end_blocking();
  }
}

// Destructors of what the closure holds may push and wait like the op itself.
void EngineCore::destroy_closure_inside(OpNode* op) noexcept {
  const InsideOp inside(this, op, this_thread_state().worker);
  destroy_closure(op);
}

void EngineCore::execute(OpNode* op, int worker) noexcept {
  const bool async = op->table->async;
  std::exception_ptr thrown;
  if (!poison_of_reads(*op)) {
    const InsideOp inside(this, op, worker);
    RunContext context{op->name, worker, op->sequence};
    try {
      op->table->run(op->closure, context, op);
    } catch (...) {
      thrown = std::current_exception();
    }
  } else if (async) {
    op->parts.store(1, std::memory_order_relaxed);  // no Completion was made
  }
  if (!async) {
    finish(op, std::move(thrown));
    return;
  }
  op->thrown = std::move(thrown);
  // acq_rel: the part that ends last sees what the other one wrote.
  if (op->parts.fetch_sub(1, std::memory_order_acq_rel) == 1) complete_parts(op);
}

void complete_parts(OpNode* op) noexcept {
  // An exception that unwound an unused Completion is the error; the drop is only its echo.
  const bool reported = op->reported && !(op->dropped && op->thrown);
  // An op has one error; a second one is on record for wait_all.
  if (reported && op->thrown) op->core->errors.failed(*op, op->thrown);
  op->core->finish(op, reported ? op->reported : op->thrown);
}

void complete(OpNode* op, std::exception_ptr error) noexcept {
  op->reported = std::move(error);
  // The last op's end may let the engine go while this thread is still on its way out of it.
  EngineCore* core = op->core;
  core->retain();
  if (op->parts.fetch_sub(1, std::memory_order_acq_rel) == 1) complete_parts(op);
  core->release();
}

void fail(OpNode* op, std::exception_ptr error) noexcept {
  if (!error)
    error = std::make_exception_ptr(Error("op '" + std::string(op->name) + "': fail() without an error"));
  complete(op, std::move(error));
}

void drop(OpNode* op) noexcept {
  op->dropped = true;
  complete(op,
           std::make_exception_ptr(DroppedCompletion(
               "op '" + std::string(op->name) + "': its Completion was destroyed without done() or fail()")));
}

std::shared_ptr<const Failure> EngineCore::outcome(const OpNode& op, std::exception_ptr error) {
  if (auto cause = poison_of_reads(op)) return ErrorLog::skipped(op, std::move(cause));
  return error ? errors.failed(op, std::move(error)) : nullptr;
}

void EngineCore::settle(OpNode* op, std::exception_ptr error, ReadyList& ready) noexcept {
  auto failure = outcome(*op, std::move(error));
  destroy_closure_inside(op);
  leave_and_drain(op, failure, ready);
}

void EngineCore::leave_and_drain(OpNode* op, const std::shared_ptr<const Failure>& failure,
                                 ReadyList& ready) noexcept {
  ReadyList woken;
  leave(*op, failure, woken);
  free_op(op);
  while (!woken.empty()) {
    OpNode* next = woken.pop_front();
    if (next->kind == OpKind::user) {
      ready.push_back(next);
    } else {
      run_internal(next);
      leave(*next, nullptr, woken);
      free_op(next);
    }
  }
}

void EngineCore::run_internal(OpNode* op) noexcept {
  if (op->kind != OpKind::wait) return;  // clear: leave() does it
  WaitState& state = *op->wait;
  state.poison = op->accesses[0].var->poison;
  state.done.store(1, std::memory_order_release);
  state.done.notify_all();
}

void EngineCore::enter_op(OpNode* op, ReadyList& ready) {
  const OpKind kind = op->kind;  // the op may run and be gone once it is entered
  if (!enter(*op)) return;
  if (kind == OpKind::user) {
    ready.push_back(op);
    return;
  }
  run_internal(op);
  leave_and_drain(op, nullptr, ready);
}

void EngineCore::parallel(std::int64_t count, std::int64_t grain,
                          const std::function<void(std::int64_t, std::int64_t)>& body) {
  for (std::int64_t begin = 0; begin < count; begin += grain) body(begin, std::min(begin + grain, count));
}

OpNode* allocate_op(std::size_t accesses, std::size_t closure_bytes) {
  static_assert(sizeof(OpNode) % alignof(AccessNode) == 0);
  std::size_t closure_at = sizeof(OpNode) + accesses * sizeof(AccessNode);
  closure_at = (closure_at + kClosureAlign - 1) / kClosureAlign * kClosureAlign;
  auto* memory = static_cast<std::byte*>(slab_allocate(closure_at + closure_bytes));
  auto* op = ::new (memory) OpNode;
  op->accesses = ::new (memory + sizeof(OpNode)) AccessNode[accesses];
  op->access_count = static_cast<std::uint32_t>(accesses);
  op->closure = memory + closure_at;
  return op;
}

void destroy_closure(OpNode* op) noexcept {
  if (op->prepared) {
    release(op->prepared);
  } else if (op->table) {
    op->table->destroy(op->closure);
  }
}

void free_op(OpNode* op) noexcept {
  op->~OpNode();
  slab_free(op);
}

}  // namespace heddle::detail
