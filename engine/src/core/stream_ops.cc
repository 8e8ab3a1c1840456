#include "core/stream_ops.h"

#include <algorithm>
#include <string>
#include <utility>

#include <heddle/stream_ops.h>

#include "core/capture.h"
#include "core/core.h"
#include "core/replay.h"
#include "stream/fence_set.h"
#include "stream/stream_work.h"
#include "stream/streams.h"

namespace heddle {
namespace detail {
namespace {

FenceSet* fences_of(const AccessNode& access) { return access.var->fences.load(std::memory_order_acquire); }

// The FenceSet of var, made if there is none. Compare-and-exchange, since ops that read one var may be issued
// at the same time.
FenceSet& need_fences(VarState& var) {
  FenceSet* known = var.fences.load(std::memory_order_acquire);
  if (known) return *known;
  auto made = std::make_unique<FenceSet>(&var);
  if (var.fences.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel))
    return *made.release();
  return *known;
}

std::vector<Dependency> fences_before(const OpNode& op) {
  std::vector<Dependency> after;
  for (std::uint32_t i = 0; i < op.access_count; ++i) {
    const AccessNode& access = op.accesses()[i];
    if (FenceSet* fences = fences_of(access)) fences->collect(access.reads, access.mutates, after);
  }
  return after;
}

bool all_done(const std::vector<Dependency>& after) {
  for (const Dependency& dependency : after) {
    if (!dependency.fence->done()) return false;
  }
  return true;
}

void add_fence(const OpNode& op, const Fence& fence) {
  for (std::uint32_t i = 0; i < op.access_count; ++i) {
    const AccessNode& access = op.accesses()[i];
    FenceSet& fences = need_fences(*access.var);
    access.mutates ? fences.set_write(fence) : fences.add_read(fence);
  }
}

// Precondition: all fences on the vars of op are done. Removes those on the vars that op mutates, and leaves
// their failure as poison.
void absorb_fences(const OpNode& op) {
  for (std::uint32_t i = 0; i < op.access_count; ++i) {
    const AccessNode& access = op.accesses()[i];
    FenceSet* fences = access.mutates ? fences_of(access) : nullptr;
    if (!fences) continue;
    if (FailurePtr failure = fences->failure()) {
      std::lock_guard guard(access.var->lock);  // error_of() reads the poison at any time
      access.var->poison.swap(failure);
    }
    fences->clear();
  }
}

// Called when the work of a replayed segment is done. Leaves on each var that it mutates its own failure.
void leave_failures(OpNode& op, const Fence& fence) {
  const VarFailures failures = std::exchange(op.extra->replay->failures, {});
  if (failures.empty()) return;
  for (std::uint32_t i = 0; i < op.access_count; ++i) {
    const AccessNode& access = op.accesses()[i];
    if (!access.mutates) continue;
    const auto failed = std::find_if(failures.begin(), failures.end(),
                                     [&](const auto& one) { return one.first == access.var; });
    fences_of(access)->replace_write(fence, failed == failures.end() ? nullptr : failed->second);
  }
}

void take_if_earlier(FailurePtr& first, const FailurePtr& failure) {
  if (failure && (!first || earlier(*failure, *first))) first = failure;
}

}  // namespace

Stream& stream_of(const OpNode* op) {
  const Replay* const replay = op->extra->replay.get();
  return replay && replay->recorder ? *replay->recorder : op->extra->on->issuer.stream();
}

StreamOps::~StreamOps() { delete streams(); }

Streams& StreamOps::need_streams() {
  Streams* known = streams();
  if (known) return *known;
  auto made = std::make_unique<Streams>();
  if (streams_.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) return *made.release();
  return *known;
}

void StreamOps::check_may_wait() {
  for (const ThreadState* frame = &this_thread_state; frame; frame = frame->outer) {
    if (!frame->op || !frame->op->extra || !frame->op->extra->on) continue;
    throw WouldDeadlock("op '" + std::string(frame->op->name) +
                        "' is on a stream: its function only enqueues, and must not wait");
  }
  if (InStreamWork::here())
    throw WouldDeadlock(
        "a wait in the work of a stream would hold up the stream; push an op that waits instead");
}

FailurePtr StreamOps::failure_of_reads(const OpNode& op) const {
  FailurePtr first = poison_of_reads(op);
  if (!streams()) return first;
  for (std::uint32_t i = 0; i < op.access_count; ++i) {
    const AccessNode& access = op.accesses()[i];
    FenceSet* fences = access.reads ? fences_of(access) : nullptr;
    if (fences) take_if_earlier(first, fences->failure());
  }
  return first;
}

// Whether op is to be skipped: a var that it reads has failed, or its group was cancelled.
bool StreamOps::is_lost(const OpNode& op) const {
  return failure_of_reads(op) || (op.group() && op.group()->cancellation());
}

bool StreamOps::take_over(OpNode* op, int worker) noexcept {
  if (op->extra && op->extra->on) {
    issue_in_turn(op, worker);
    return true;
  }
  if (op->extra && op->extra->issues) return false;  // each op of the graph waits for what comes before it
  if (std::vector<Dependency> after = fences_before(*op); !all_done(after)) {
    defer(op, std::move(after));
    return true;
  }
  absorb_fences(*op);
  return false;
}

void StreamOps::defer(OpNode* op, std::vector<Dependency>&& after) noexcept {
  if (OpObserver* observer = core_.observer()) observer->deferred(*op);
  when_all_done(std::move(after), [this, op] {
    if (OpObserver* observer = core_.observer()) observer->resumes(*op);
    resume(op);
  });
}

void StreamOps::resume(OpNode* op) noexcept {
  op->flags& OpNode::kOfGraph ? graph_op_resumes(op) : core_.scheduler().resume(op);
}

bool StreamOps::defer_in_launch(OpNode& op, std::function<void()> resume) noexcept {
  std::vector<Dependency> after = fences_before(op);
  if (all_done(after)) {
    absorb_fences(op);
    return false;
  }
  if (OpObserver* observer = core_.observer()) observer->deferred(op);
  when_all_done(std::move(after), [this, &op, resume = std::move(resume)] {
    if (OpObserver* observer = core_.observer()) observer->resumes(op);
    resume();
  });
  return true;
}

std::string StreamOps::streams_before(const OpNode& op) const {
  std::string names;
  const StreamLane* last = nullptr;
  for (const Dependency& dependency : fences_before(op)) {
    const StreamLane* lane =
        dependency.fence->done() ? nullptr : streams()->find(*dependency.fence->stream());
    if (!lane || lane == last) continue;
    names += (names.empty() ? "" : ", ") + lane->name();
    last = lane;
  }
  return names;
}

std::string stream_name(const OpNode& op) { return op.extra && op.extra->on ? op.extra->on->name() : ""; }

// Precondition: the work that op had to come after is done.
void StreamOps::complete_unissued(OpNode* op, FailurePtr&& failure) noexcept {
  absorb_fences(*op);
  if (failure) tell_skipped(op, *failure);
  if (trace::on()) [[unlikely]]
    op->extra->on->trace_done(*op, core_.trace_number, trace::now());
  if (op->flags & OpNode::kOfGraph) {
    if (OpObserver* observer = core_.observer()) observer->completed(*op);
    return graph_op_skipped(op, std::move(failure));
  }
  {
    const InsideOp inside(&core_, op, this_thread_state.worker);
    destroy_closure(op);
  }
  const std::uint8_t epoch = op->epoch;
  ReadyList ready;
  core_.complete(op, std::move(failure), ready);
  core_.scheduler().completed_elsewhere(epoch, ready);
}

// A thread that waits inside an op issues only op itself. The ops behind it at the gate might take long, or
// need a lock that the thread holds, so other threads issue them.
void StreamOps::issue_in_turn(OpNode* op, int worker) noexcept {
  StreamLane& lane = *op->extra->on;
  if (!lane.gate.enter(op)) return;
  do {
    issue(op, worker);
    if (!core_.scheduler().runs_anything()) {
      for (OpNode *left = lane.gate.open(), *next = nullptr; left; left = next) {
        next = left->next_ready();
        resume(left);
      }
      return;
    }
  } while ((op = lane.gate.next()));
}

// Called inside the gate. Defers an op whose stream cannot wait for the work before it, and also an op that
// is to be skipped, since later ops rely on it coming after that work.
void StreamOps::issue(OpNode* op, int worker) noexcept {
  StreamLane& lane = *op->extra->on;
  std::vector<Dependency> after = fences_before(*op);
  const bool lost = is_lost(*op);
  if (lost && replays(*op)) return graph_op_divides(op);
  if ((lost || !lane.issuer.can_wait_for(after)) && !all_done(after)) return defer(op, std::move(after));
  // skip_reason() decides, since a deadline may have been moved after is_lost(). It is not asked again.
  if (FailurePtr failure = lost ? core_.skip_reason(*op) : nullptr)
    return complete_unissued(op, std::move(failure));
  Fence fence;
  if (OpObserver* observer = core_.observer()) observer->started(*op, worker);
  const trace::Tick start = trace::on() ? trace::now() : 0;
  try {
    fence = enqueue(op, worker, after, start);
  } catch (...) {  // enqueue() has failed and has enqueued nothing
    if (replays(*op)) return graph_op_divides(op);
    return when_all_done(std::move(after), [this, op, error = std::current_exception()] {
      FailurePtr failure = core_.skip_reason(*op);
      complete_unissued(op, failure ? std::move(failure) : core_.errors.failed(*op, error));
    });
  }
  // Releases the references to failures in `after`: ErrorLog takes every error that something else refers to
  // for one that still poisons a var.
  after.clear();
  if (start) [[unlikely]] {
    trace::TraceOp what = traced(*op, core_.trace_number);
    what.released_by = trace::kNone;  // the trace's arrow leads to the op's slice on its stream
    trace::op_issued(trace::worker_lane(core_.trace_number, worker), what, start, trace::now());
  }
  add_fence(*op, fence);
  if (OpObserver* observer = core_.observer()) observer->returned(*op);
  const bool of_graph = op->flags & OpNode::kOfGraph, replayed = replays(*op);
  of_graph ? graph_op_issued(op) : core_.scheduler().issued(op);
  const auto work_done = [this, op, of_graph] {
    if (OpObserver* observer = core_.observer()) observer->completed(*op);
    if (of_graph) return graph_work_done(op);
    core_.budget.release(*op);
    core_.scheduler().stream_work_done(op);
  };
  if (!replayed) return when_done(std::move(fence), work_done);
  fence->when_done([op, held = fence, work_done]() mutable {
    leave_failures(*op, std::exchange(held, nullptr));
    work_done();
  });
}

// Enqueues the op's work, and waits on the stream for `after`. Throws what Issuer::issue throws.
Fence StreamOps::enqueue(OpNode* op, int worker, const std::vector<Dependency>& after, trace::Tick start) {
  const auto body = [this, op, worker](Stream&) {
    const InsideOp inside(&core_, op, worker);
    RunContext context{op->name, worker, op->sequence, op->group()};
    op->table->run(closure_of(op), context, op);
  };
  const auto trace_end = [this, op, start] {
    if (start) [[unlikely]]  // recorded first: later ops may begin as soon as the fence is done
      op->extra->on->trace_done(*op, core_.trace_number, start);
  };
  Issuer& issuer = op->extra->on->issuer;
  if (replays(*op)) {
    return issuer.issue_several(after, body,
                                [op, trace_end](std::exception_ptr own, const VarFailures& inherited) {
                                  trace_end();
                                  return graph_op_outcome(*op, std::move(own), inherited);
                                });
  }
  return issuer.issue(
      after, body, [this, op, trace_end](std::exception_ptr own, const std::vector<FailurePtr>& inherited) {
        trace_end();
        return outcome(op, std::move(own), inherited);
      });
}

// If what op read has failed, its own exception does not count, since op would not have run in a serial
// program.
FailurePtr StreamOps::outcome(OpNode* op, std::exception_ptr own,
                              const std::vector<FailurePtr>& inherited) noexcept {
  FailurePtr failure;
  for (const FailurePtr& cause : inherited) take_if_earlier(failure, cause);
  if (op->table->outcome) own = op->table->outcome(closure_of(op), failure ? failure->root->exception : own);
  if (failure) {
    failure = ErrorLog::skipped(*op, std::move(failure));
  } else if (own) {
    failure = core_.errors.failed(*op, std::move(own));
  }
  const InsideOp inside(&core_, op, this_thread_state.worker);
  destroy_closure(op);
  return failure;
}

// The wait op releases its var at once, so that other ops are not delayed. Its WaitState is signalled when
// the last write is done.
void StreamOps::announce_after(FenceSet& fences, const std::shared_ptr<WaitState>& state) noexcept {
  std::vector<Dependency> after;
  fences.collect(true, false, after);
  std::vector<Dependency> writes;
  for (const Dependency& write : after) {
    if (write.read) writes.push_back(write);
  }
  when_all_done(std::move(after), [this, state, writes = std::move(writes)]() mutable {
    for (const Dependency& write : writes) {
      if (FailurePtr failure = write.fence->failure(write.var)) state->poison = std::move(failure);
    }
    writes.clear();  // so that of the wait only `state` holds the failure
    announce(*state);
    core_.scheduler().wake_waiters();
  });
}

}  // namespace detail

using namespace detail;

Stream& Engine::stream(Device device, Lane lane) {
  core_->check_open();
  return core_->stream_ops.need_streams().shared(device, lane,
                                                 [&] { return core_->scheduler().new_stream(device, lane); });
}

Stream& Engine::make_stream(Device device, Lane lane) {
  core_->check_open();
  return core_->stream_ops.need_streams().add(core_->scheduler().new_stream(device, lane));
}

Stream& Engine::adopt_stream(std::unique_ptr<Stream> stream) {
  core_->check_open();
  if (!stream) throw InvalidArgument("adopt_stream: a null pointer; want a stream");
  return core_->stream_ops.need_streams().add(std::move(stream));
}

detail::StreamLane& Engine::lane_of(const Stream& stream) {
  const Streams* all = core_->stream_ops.streams();
  if (StreamLane* lane = all ? all->find(stream) : nullptr) return *lane;
  throw InvalidArgument(
      "push_on: a stream of another engine, or of none; see Engine::stream and adopt_stream");
}

void Engine::submit_on(StreamLane& lane, OpNode* op) {
  op->extra->on = &lane;
  submit_or_record(core_, op);
}

}  // namespace heddle
