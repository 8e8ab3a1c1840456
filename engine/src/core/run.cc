// How a ready op is run, completed and released. The ops that its release makes ready go to the scheduler.
#include "core/capture.h"
#include "core/core.h"
#include "op/tracker.h"
#include "stream/fence_set.h"

namespace heddle::detail {
namespace {

std::exception_ptr call(OpNode* op, int worker) noexcept {
  RunContext context{op->name, worker, op->sequence, op->group()};
  try {
    op->table->run(closure_of(op), context, op);
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

// Records in the trace that op's push waited for room. Called when op starts, since it has no sequence number
// before.
void trace_blocked_push(OpNode& op, std::uint32_t engine) noexcept {
  const std::unique_ptr<BlockedPush> push = std::move(op.extra->blocked);
  if (!trace::on()) return;
  trace::push_blocked(push->lane, {"blocked push", op.where, engine, op.sequence, push->released_by},
                      push->start, push->end);
}

// A cheap test that decides whether skip_reason() has to be called.
bool touches_poison(const OpNode& op) {
  for (std::uint32_t i = 0; i < op.access_count; ++i) {
    if (op.accesses()[i].var->poison) return true;
  }
  return false;
}

}  // namespace

FailurePtr EngineCore::skip_reason(const OpNode& op) {
  // A launch has the accesses of all ops of its graph. Each of these ops checks what it reads itself.
  const bool launch = op.extra && op.extra->graph;
  if (FailurePtr cause = launch ? nullptr : stream_ops.failure_of_reads(op)) {
    return ErrorLog::skipped(op, std::move(cause));
  }
  const GroupState* group = op.group();
  if (!group) return nullptr;
  std::exception_ptr cancelled = group->cancellation();
  return cancelled ? errors.failed(op, std::move(cancelled), group->reported()) : nullptr;
}

bool EngineCore::run(OpNode* op, int worker, ReadyList& ready) noexcept {
  if (op->extra && op->extra->blocked) [[unlikely]]
    trace_blocked_push(*op, trace_number);
  if (stream_ops.streams() && stream_ops.take_over(op, worker)) [[unlikely]]
    return false;
  if (observer_) [[unlikely]]
    observer_->started(*op, worker);
  FailurePtr failure;
  if (op->extra || stream_ops.streams() || touches_poison(*op)) [[unlikely]]
    failure = skip_reason(*op);
  if (op->table->async && !failure) return run_async(op, worker, ready);
  const trace::Tick start = trace::on() ? trace::now() : 0;
  {
    const InsideOp inside(this, op, worker);
    if (failure) {
      tell_skipped(op, *failure);
    } else if (std::exception_ptr thrown = call(op, worker)) {
      failure = errors.failed(*op, std::move(thrown));
    }
    // Destructors of what the closure holds may push and wait like the op itself.
    destroy_closure(op);
  }
  if (start) [[unlikely]]
    trace::op_ran(trace::worker_lane(trace_number, worker), traced(*op, trace_number), start, trace::now());
  complete(op, std::move(failure), ready);
  return true;
}

void EngineCore::complete(OpNode* op, FailurePtr&& failure, ReadyList& ready) noexcept {
  if (observer_) [[unlikely]]
    observer_->completed(*op);
  budget.release(*op);
  scheduler_->release_op(op, std::move(failure), ready);
}

bool EngineCore::run_async(OpNode* op, int worker, ReadyList& ready) noexcept {
  OpExtra& extra = *op->extra;
  const trace::Tick start = extra.started = trace::on() ? trace::now() : 0;
  extra.lane = trace::worker_lane(trace_number, worker);
  {
    const InsideOp inside(this, op, worker);
    extra.thrown = call(op, worker);
  }
  if (start) [[unlikely]]
    trace::op_issued(extra.lane, traced(*op, trace_number), start, trace::now());
  if (observer_) [[unlikely]]
    observer_->returned(*op);
  // acq_rel: of the function and the Completion, the one that ends last sees what the other wrote.
  if (extra.parts.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  return complete_async(op, ready);
}

std::exception_ptr outcome_of(OpNode* op) noexcept {
  OpExtra& extra = *op->extra;
  // An exception that unwound an unused Completion is the error; the Completion's DroppedCompletion is a
  // consequence.
  const bool reported = extra.reported && !(extra.dropped && extra.thrown);
  // An op has one error; a second one is recorded for wait_all.
  if (reported && extra.thrown) extra.core->errors.failed(*op, extra.thrown);
  return reported ? extra.reported : extra.thrown;
}

bool EngineCore::complete_async(OpNode* op, ReadyList& ready) noexcept {
  FailurePtr failure;
  std::exception_ptr thrown = outcome_of(op);
  if (op->extra->started) [[unlikely]]
    trace::op_completed(op->extra->lane, traced(*op, trace_number), op->extra->started, trace::now());
  if (op->extra->issues) [[unlikely]]
    return launch_issued(op), false;
  if (thrown) failure = errors.failed(*op, std::move(thrown));
  {
    const InsideOp inside(this, op, this_thread_state.worker);
    destroy_closure(op);
  }
  complete(op, std::move(failure), ready);
  return true;
}

void report(OpNode* op, std::exception_ptr error) noexcept {
  op->extra->reported = std::move(error);
  // The end of the last op may free the core while this thread is still inside it.
  EngineCore* core = op->extra->core;
  core->retain();
  if (op->extra->parts.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    if (op->extra->launch) {
      graph_op_completed(op, outcome_of(op));
    } else {
      const std::uint8_t epoch = op->epoch;
      ReadyList ready;
      if (core->complete_async(op, ready)) core->scheduler().completed_elsewhere(epoch, ready);
    }
  }
  core->release();
}

void fail(OpNode* op, std::exception_ptr error) noexcept {
  if (!error)
    error = std::make_exception_ptr(Error("op '" + std::string(op->name) + "': fail() without an error"));
  report(op, std::move(error));
}

void drop(OpNode* op) noexcept {
  op->extra->dropped = true;
  report(op,
         std::make_exception_ptr(DroppedCompletion(
             "op '" + std::string(op->name) + "': its Completion was destroyed without done() or fail()")));
}

namespace {

// Passes the vars of a graph's launch on to the next launch of that graph. The vars keep the accesses of the
// first launch of such a chain, which is freed when the last launch releases them. Its sequence becomes that
// of the next launch, so that Pending shows which launch holds the vars.
void hand_over(OpNode& from, OpNode& to) noexcept {
  OpNode* holder = from.extra->holder ? from.extra->holder : &from;
  std::atomic_ref(holder->sequence).store(to.sequence, std::memory_order_relaxed);
  to.extra->holder = holder;
  holder->extra->users.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

void EngineCore::release_vars(OpNode* op, const FailurePtr& failure, ReadyList& ready) noexcept {
  if (OpNode* then = op->extra ? op->extra->then : nullptr)
    return hand_over(*op, *then), ready.push_back(then);
  ReadyList woken;
  release_accesses(*op, failure, woken);
  if (woken.size == 1 && !woken.head->extra) return ready.push_back(woken.head);
  while (!woken.empty()) {
    OpNode* next = woken.pop_front();
    if (next->kind == OpKind::user) {
      if (next->plain()) {
        ready.push_back(next);
      } else {
        scheduler_->made_ready(next, ready);
      }
    } else {
      announce_wait(next);
      release_accesses(*next, nullptr, woken);
      free_op(next);
    }
  }
}

void announce(WaitState& state) noexcept {
  // seq_cst: notify_all() looks for waiters next, and a waiter reads `done` after it was counted.
  state.done.store(1, std::memory_order_seq_cst);
  state.done.notify_all();
  // seq_cst: this thread sees timed_wait, or the thread that has set it sees that the wait is over.
  if (TimedWait* timed_wait = state.timed_wait.load(std::memory_order_seq_cst)) {
    { std::lock_guard guard(timed_wait->mutex); }
    timed_wait->over.notify_all();
  }
}

void EngineCore::announce_wait(OpNode* op) noexcept {
  const std::shared_ptr<WaitState> state = op->extra->wait;
  if (op->access_count == 0) return announce(*state);
  const VarState& var = *op->accesses()[0].var;
  state->poison = var.poison;
  state->released_by = op->released_by();
  if (FenceSet* fences = var.fences.load(std::memory_order_acquire))
    return stream_ops.announce_after(*fences, state);
  announce(*state);
}

void EngineCore::run_internal(QueueNode* node, ReadyList& ready) noexcept {
  if (node->kind == OpKind::delete_var) return delete_var(*static_cast<VarState*>(node));
  auto* op = static_cast<OpNode*>(node);
  announce_wait(op);
  release_vars(op, nullptr, ready);
  free_op(op);
}

}  // namespace heddle::detail
