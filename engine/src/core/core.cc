#include "core/core.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/fork.h"
#include "core/capture.h"
#include "op/op_memory.h"
#include "op/tracker.h"
#include "stream/fence_set.h"
#include "stream/stream_work.h"
#include "stream/streams.h"

namespace heddle::detail {

constinit thread_local ThreadState this_thread_state;
constinit thread_local std::uint32_t this_thread_blocked = 0;
constinit thread_local bool this_thread_ends = false;

void note_thread_end() {
  struct AtEnd {
    ~AtEnd() { this_thread_ends = true; }
    bool made = false;
  };
  thread_local AtEnd at_end;
  at_end.made = true;
}

EngineCore::EngineCore(const EngineOptions& engine_options, bool extra)
    : options(engine_options),
      extra_for_all(extra),
      trace_number(trace::next_engine()),
      budget_(engine_options.max_ops != 0 || engine_options.max_bytes != 0
                  ? std::make_unique<Budget>(engine_options.max_ops, engine_options.max_bytes)
                  : nullptr),
      generation_(fork_generation()) {
  trace::start_from_environment();
}

void EngineCore::observe(std::unique_ptr<OpObserver> observer) { observer_ = std::move(observer); }

void EngineCore::take_bounded(std::size_t bytes) {
  // What is captured is given its room back at once: it will run later, or never.
  if (this_thread_state.core || InStreamWork::here() || capturing()) return budget_->take_anyway(bytes);
  if (budget_->try_take(bytes)) return;
  await_room(bytes);
  try {
    check_open();
  } catch (...) {
    return_room(bytes);
    throw;
  }
}

EngineCore::~EngineCore() { delete streams(); }

void EngineCore::throw_closed() const {
  if (forked()) {
    throw Error(
        "this engine was made before fork(): its threads are in the parent process. default_engine() makes a "
        "new one here; arrays and vars made before the fork can be waited for, not computed with");
  }
  throw Error("this engine has been shut down");
}

void EngineCore::shut_down() noexcept {
  if (forked()) return;
  if (const OpNode* op = current_op()) return shut_down_inside(*op);
  wait_all();
  open_.store(false, std::memory_order_relaxed);
  stop();
  if (observer_) observer_->stop();
  if (Streams* all = streams()) all->stop();
  errors.log_unseen();
}

void EngineCore::shut_down_inside(const OpNode& op) noexcept {
  if (!this_thread_ends) {
    std::fprintf(stderr,
                 "heddle: an engine is destroyed inside its own op '%s', pushed at %s:%u: it would wait for "
                 "that op, which "
                 "waits for it; destroy it outside of its ops\n",
                 op.name, op.where.file_name(), static_cast<unsigned>(op.where.line()));
    std::abort();
  }
  // exit() inside an op: the process ends, this op never will. The other threads use the engine until then.
  errors.log_unseen();
  retain();
}

void EngineCore::release() noexcept {
  // In the child of a fork there are no threads to end, and what they held stays as it was.
  if (forked()) return;
  // acq_rel: the last one sees what all others did to the core before it deletes it.
  if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

InsideOp::InsideOp(EngineCore* core, OpNode* op, int worker) : outer_(this_thread_state) {
  this_thread_state = {core, op, worker, outer_.core ? &outer_ : nullptr};
}
InsideOp::~InsideOp() { this_thread_state = outer_; }

void Scheduling::drop(VarState& var) noexcept { delete &var; }

OpNode* EngineCore::current_op() const {
  for (const ThreadState* frame = &this_thread_state; frame; frame = frame->outer) {
    if (frame->core == this) return frame->op;
  }
  return nullptr;
}

void begin_blocking_everywhere() try {
  for (const ThreadState* frame = &this_thread_state; frame; frame = frame->outer) {
    if (frame->core && !frame->core->forked()) frame->core->begin_blocking();
  }
} catch (...) {
  end_blocking_everywhere();
  throw;
}

void end_blocking_everywhere() noexcept {
  for (const ThreadState* frame = &this_thread_state; frame; frame = frame->outer) {
    if (frame->core && !frame->core->forked()) frame->core->end_blocking();
  }
}

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

// A cheap look, so that ops whose vars have no error skip skip_reason().
bool touches_poison(const OpNode& op) {
  for (std::uint32_t i = 0; i < op.access_count; ++i) {
    if (op.accesses()[i].var->poison) return true;
  }
  return false;
}

}  // namespace

// What op leaves behind if it is not to run: an error on what it reads, or the end of its group. Null if it is.
std::shared_ptr<const Failure> EngineCore::skip_reason(const OpNode& op) {
  // What a launch reads is its ops' affair.
  const bool launch = op.extra && op.extra->graph;
  if (std::shared_ptr<const Failure> cause = launch ? nullptr : failure_of_reads(op)) {
    return ErrorLog::skipped(op, std::move(cause));
  }
  const GroupState* group = op.group();
  if (!group) return nullptr;
  std::exception_ptr cancelled = group->cancellation();
  return cancelled ? errors.failed(op, std::move(cancelled), group->reported()) : nullptr;
}

bool EngineCore::run(OpNode* op, int worker, ReadyList& ready) noexcept {
  if (streams() && !may_run_on_cpu(op, worker)) [[unlikely]]
    return false;
  if (observer_) [[unlikely]]
    observer_->started(*op, worker);
  std::shared_ptr<const Failure> failure;
  if (op->extra || streams() || touches_poison(*op)) [[unlikely]]
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

// The closure is destroyed.
void EngineCore::complete(OpNode* op, std::shared_ptr<const Failure>&& failure, ReadyList& ready) noexcept {
  if (observer_) [[unlikely]]
    observer_->ended(*op);
  give_room(op->bytes());
  release_op(op, std::move(failure), ready);
}

void EngineCore::release_op(OpNode* op, std::shared_ptr<const Failure>&& failure, ReadyList& ready) noexcept {
  release_vars(op, failure, ready);
  failure.reset();
  free_op(op);
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
  // acq_rel: the part that ends last sees what the other one wrote.
  if (extra.parts.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  complete_async(op, ready);
  return true;
}

std::exception_ptr outcome_of(OpNode* op) noexcept {
  OpExtra& extra = *op->extra;
  // An exception that unwound an unused Completion is the error; the drop is only its echo.
  const bool reported = extra.reported && !(extra.dropped && extra.thrown);
  // An op has one error; a second one is on record for wait_all.
  if (reported && extra.thrown) extra.core->errors.failed(*op, extra.thrown);
  return reported ? extra.reported : extra.thrown;
}

// Its function has returned, and its Completion has reported.
void EngineCore::complete_async(OpNode* op, ReadyList& ready) noexcept {
  std::shared_ptr<const Failure> failure;
  std::exception_ptr thrown = outcome_of(op);
  if (op->extra->started) [[unlikely]]
    trace::op_completed(op->extra->lane, traced(*op, trace_number), op->extra->started, trace::now());
  if (thrown) failure = errors.failed(*op, std::move(thrown));
  {
    const InsideOp inside(this, op, this_thread_state.worker);
    destroy_closure(op);
  }
  complete(op, std::move(failure), ready);
}

void report(OpNode* op, std::exception_ptr error) noexcept {
  op->extra->reported = std::move(error);
  // The last op's end may let the engine go while this thread is still on its way out of it.
  EngineCore* core = op->extra->core;
  core->retain();
  if (op->extra->parts.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    if (op->extra->launch) {
      graph_op_completed(op, outcome_of(op));
    } else {
      const std::uint8_t epoch = op->epoch;
      ReadyList ready;
      core->complete_async(op, ready);
      core->completed_elsewhere(epoch, ready);
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

// Of two launches that follow each other. The vars go on naming the access of the first one, which lives until the last
// gives them back, under the number of the one that has them now: see Pending.
void hand_over(OpNode& from, OpNode& to) noexcept {
  OpNode* holder = from.extra->holder ? from.extra->holder : &from;
  std::atomic_ref(holder->sequence).store(to.sequence, std::memory_order_relaxed);
  to.extra->holder = holder;
}

}  // namespace

void EngineCore::release_vars(OpNode* op, const std::shared_ptr<const Failure>& failure,
                              ReadyList& ready) noexcept {
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
        made_ready(next, ready);
      }
    } else {
      signal(next);
      release_accesses(*next, nullptr, woken);
      free_op(next);
    }
  }
}

void announce(WaitState& state) noexcept {
  // seq_cst: notify_all() looks for waiters next, and the waiter looks here once it is counted as one.
  state.done.store(1, std::memory_order_seq_cst);
  state.done.notify_all();
  // seq_cst: either this sees the alarm, or who has set it sees that the wait is over.
  if (Alarm* alarm = state.alarm.load(std::memory_order_seq_cst)) {
    { std::lock_guard guard(alarm->mutex); }
    alarm->rung.notify_all();
  }
}

void EngineCore::signal(OpNode* op) noexcept {
  const std::shared_ptr<WaitState> state = op->extra->wait;
  if (op->access_count == 0) return announce(*state);
  const VarState& var = *op->accesses()[0].var;
  state->poison = var.poison;
  if (FenceSet* fences = var.fences.load(std::memory_order_acquire)) return signal_after(*fences, state);
  announce(*state);
}

void EngineCore::run_internal(QueueNode* node, ReadyList& ready) noexcept {
  if (node->kind == OpKind::drop) return drop_var(*static_cast<VarState*>(node));
  auto* op = static_cast<OpNode*>(node);
  signal(op);
  release_vars(op, nullptr, ready);
  free_op(op);
}

void Scheduling::parallel(std::int64_t count, std::int64_t grain,
                          const std::function<void(std::int64_t, std::int64_t)>& body) {
  for (std::int64_t begin = 0; begin < count; begin += grain) body(begin, std::min(begin + grain, count));
}

namespace {
std::size_t aligned(std::size_t bytes) { return (bytes + kClosureAlign - 1) / kClosureAlign * kClosureAlign; }
}  // namespace

OpNode* allocate_op(EngineCore* core, std::size_t accesses, std::size_t closure_bytes, bool extra) {
  extra = extra || core->extra_for_all;
  const std::size_t extra_at = sizeof(OpNode) + accesses * sizeof(AccessNode);
  const std::size_t closure_at = extra_at + (extra ? aligned(sizeof(OpExtra)) : 0);
  const std::size_t bytes = closure_at + closure_bytes;
  auto* memory = static_cast<std::byte*>(op_allocate(bytes));
  auto* op = ::new (memory) OpNode;
  op->alone = bytes > kLargestOp;
  op->closure_at = static_cast<std::uint32_t>(closure_at);
  if (extra) {
    op->extra = ::new (memory + extra_at) OpExtra;
    op->extra->core = core;
  }
  return op;
}

void* closure_of(OpNode* op) noexcept {
  return op->prepared ? (*static_cast<PreparedState**>(op->place()))->closure : op->place();
}

void tell_skipped(OpNode* op, const Failure& why) noexcept {
  if (op->table && op->table->skipped) op->table->skipped(closure_of(op), why.root->exception);
}

void destroy_closure(OpNode* op) noexcept {
  if (op->prepared) {
    release(*static_cast<PreparedState**>(op->place()));
  } else if (op->table && op->table->destroy) {
    op->table->destroy(op->place());
  }
}

void free_op(OpNode* op) noexcept {
  if (OpExtra* extra = op->extra) {
    if (extra->then && !extra->holder) return;  // it is the holder
    if (extra->holder && !extra->then) {
      extra->holder->extra->then = nullptr;
      free_op(extra->holder);
    }
    extra->~OpExtra();
  }
  op_free(op, op->closure_at, op->alone);
}

}  // namespace heddle::detail
