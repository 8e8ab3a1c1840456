// How the ops of a launched graph run.
#include <algorithm>
#include <chrono>
#include <mutex>

#include <heddle/check.h>

#include "core/capture.h"
#include "core/core.h"
#include "graph/graph_state.h"
#include "graph/segment.h"
#include "op/failure.h"
#include "op/op_memory.h"
#include "stream/fence_set.h"

namespace heddle::detail {
namespace {

constexpr std::uint32_t kNone = ~0u;  // an index that stands for no op

double graph_clock() {
  return static_cast<double>(std::chrono::steady_clock::now().time_since_epoch().count());
}

bool is_async(const OpNode& op) { return op.table && op.table->async; }
bool is_on_stream(const OpNode& op) { return op.extra && op.extra->on; }

void retain(GraphRun& run) noexcept { run.refs.fetch_add(1, std::memory_order_relaxed); }

// Sets the poison of op's vars, as release_accesses() does for other ops. The lock is needed for error_of()
// only: the launch holds all the vars, so that no op touches them.
void set_poison(const OpNode& op, const FailurePtr& failure) noexcept {
  for (std::uint32_t i = 0; i < op.access_count; ++i) {
    const AccessNode& access = op.accesses()[i];
    if (!access.mutates || (!failure && !access.var->poison)) continue;
    FailurePtr old = failure;  // `old` is freed outside the lock
    std::lock_guard guard(access.var->lock);
    old.swap(access.var->poison);
  }
}

// Called when an op of a graph has completed; `thrown` is its exception or null. Poisons or clears the vars
// that op mutates, as EngineCore::complete() does for other ops.
void complete_op(GraphRun& run, OpNode& op, std::exception_ptr thrown) noexcept {
  FailurePtr failure = run.graph->core->stream_ops.failure_of_reads(op);
  if (failure) {
    failure = ErrorLog::skipped(op, std::move(failure));
  } else if (thrown) {
    failure = run.graph->core->errors.failed(op, std::move(thrown));
  }
  // relaxed: only ops that depend on `op` must see the flag.
  if (failure) run.check_errors.store(true, std::memory_order_relaxed);
  set_poison(op, failure);
}

std::exception_ptr call_untraced(const GraphOp& op, std::uint64_t sequence, int worker) noexcept {
  RunContext context{op.name, worker, sequence};
  // graph_op stays set until the thread's next op. The InsideOp around the launch or the helper task resets
  // it.
  this_thread_state.graph_op = op.node;
  try {
    op.run(op.closure, context, op.node);
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

std::exception_ptr call_op(const GraphRun& run, const GraphOp& op, std::uint64_t sequence,
                           int worker) noexcept {
  if (!trace::on()) return call_untraced(op, sequence, worker);
  op.node->sequence = sequence;  // the records of waits inside the op name this number
  const std::uint32_t engine = run.graph->core->trace_number;
  const trace::Tick start = trace::now();
  std::exception_ptr thrown = call_untraced(op, sequence, worker);
  trace::graph_op_ran(trace::worker_lane(engine, worker), {op.name, op.node->where, engine, sequence}, start,
                      trace::now());
  return thrown;
}

// Calls the function of an asynchronous op. True if the op has ended: its Completion was called by now.
bool run_async(GraphRun& run, const GraphOp& op, int worker) noexcept {
  OpExtra& extra = *op.node->extra;
  extra.parts.store(2, std::memory_order_relaxed);
  extra.dropped = false;
  extra.thrown = extra.reported = nullptr;
  extra.launch = &run;
  std::exception_ptr thrown = call_op(run, op, op.node->sequence, worker);
  extra.thrown = std::move(thrown);
  // acq_rel: of the function and the Completion, the one that ends last sees what the other wrote.
  if (extra.parts.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  complete_op(run, *op.node, outcome_of(op.node));
  return true;
}

void resume_op(GraphRun& run, std::uint32_t i) noexcept;

// Runs op i when vars may be poisoned, or ops asynchronous or on streams. False if op i ends elsewhere, or perhaps has
// ended there: it is asynchronous, on a stream or deferred.
bool run_checked(GraphRun& run, std::uint32_t i, int worker) noexcept {
  const GraphOp& op = run.graph->ops[i];
  op.node->sequence = run.first + i;
  if (run.graph->streams) {
    StreamOps& streams = run.core->stream_ops;
    if (is_on_stream(*op.node)) return streams.issue_in_turn(op_to_issue(run, i, worker), worker), false;
    if (streams.defer_in_launch(*op.node, [&run, i] { resume_op(run, i); })) return false;
  }
  if (const FailurePtr cause = run.graph->core->stream_ops.failure_of_reads(*op.node)) {
    tell_skipped(op.node, *cause);
    complete_op(run, *op.node, nullptr);
    return true;
  }
  if (is_async(*op.node)) return run_async(run, op, worker);
  complete_op(run, *op.node, call_op(run, op, op.node->sequence, worker));
  return true;
}

void end_uses(GraphState& graph, std::uint32_t i) noexcept {
  for (std::uint32_t at = graph.first_ended[i]; at < graph.first_ended[i + 1]; ++at) {
    UsedMemory& used = graph.memories[graph.ended[at]];
    // acq_rel: the memory's next user may write it, so all reads of it must come before.
    if (used.users > 1 && used.left.fetch_sub(1, std::memory_order_acq_rel) > 1) continue;
    used.left.store(used.users,
                    std::memory_order_relaxed);  // for the next launch, which starts after this one
    used.memory->end_use();
  }
}

// Call when op i is done, before the ops that follow it start.
inline void end_memory(GraphState& graph, std::uint32_t i) noexcept {
  if (!graph.first_ended.empty()) end_uses(graph, i);
}

// Runs op i. False if it ends elsewhere, see run_checked().
inline bool run_op(GraphRun& run, std::uint32_t i, int worker) noexcept {
  if (run.check_errors.load(std::memory_order_relaxed)) [[unlikely]]
    return run_checked(run, i, worker);
  const GraphOp& op = run.graph->ops[i];
  if (std::exception_ptr thrown = call_op(run, op, run.first + i, worker)) [[unlikely]] {
    op.node->sequence = run.first + i;
    complete_op(run, *op.node, std::move(thrown));
  }
  return true;
}

// Call when all ops are done. Afterwards the graph may be freed, and so may `run` without a reference on it.
void end_launch(GraphRun& run) noexcept {
  GraphState& graph = *run.graph;
  for (const auto& slot : graph.slots) slot->value.store(nullptr, std::memory_order_relaxed);
  const double ops = std::max(1u, graph.size());
  const double wall = (graph_clock() - run.began) / ops;
  const double busy = run.serial ? wall : static_cast<double>(run.busy.load(std::memory_order_relaxed)) / ops;
  graph.mode_tuner.completed(run.serial, wall, busy);
  {
    std::lock_guard guard(run.lock);
    run.open = false;
  }
  {
    std::lock_guard guard(graph.lock);
    if (graph.last == run.op) graph.last = nullptr;
  }
  report(run.op, nullptr);
}

void submit_helper_task(GraphRun& run, std::uint32_t from) noexcept;

// Runs the ops one after the other, from op i on. If one ends elsewhere, go_on() does the rest, or tells how to.
void run_serial(GraphRun& run, std::uint32_t i, int worker) noexcept {
  GraphState& graph = *run.graph;
  const std::uint32_t end = graph.size();
  const GraphOp* const ops = graph.ops.data();
  const std::uint32_t blocked = this_thread_blocked;
  while (i < end) {
    if (i + 8 < end) __builtin_prefetch(ops[i + 8].closure);
    if (graph.streams) run.ends.store(2, std::memory_order_relaxed);
    if (run_op(run, i, worker)) {
      end_memory(graph, i++);
    } else if (run.ends.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      i = run.next;
    } else {
      return;
    }
    if (this_thread_blocked != blocked) [[unlikely]] {
      if (i < end) return submit_helper_task(run, i);
    }
  }
  end_launch(run);
}

// In serial mode, called when an op that ends elsewhere has ended: op `next` follows.
void go_on(GraphRun& run, std::uint32_t next) noexcept {
  run.next = next;
  // acq_rel: the thread that goes on sees what the other did.
  if (run.ends.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (next == run.graph->size()) return end_launch(run);
  const InsideOp inside(run.core, run.op, this_thread_state.worker);
  submit_helper_task(run, next);
}

// For Scheduler::naive: runs the ops in push order and waits for each asynchronous one, and for the work of each one on
// a stream.
void run_in_order(GraphRun& run) noexcept {
  for (std::uint32_t i = 0; i < run.graph->size(); i = end_of(*run.graph, i)) {
    const std::uint32_t before = run.left.load(std::memory_order_relaxed);
    if (run_op(run, i, 0)) {
      end_memory(*run.graph, i);
      run.left.store(before - 1, std::memory_order_relaxed);
      continue;
    }
    // acquire: this thread sees what the op did on another thread.
    run.core->scheduler().await([&] { return run.left.load(std::memory_order_acquire) != before; });
  }
  end_launch(run);
}

// Call with run.lock held. True if one more thread should help: the caller has to submit a helper task.
bool needs_helper(GraphRun& run) {
  if (run.graph->ready.empty() || run.active_threads + run.queued_helpers >= run.max_threads) return false;
  ++run.queued_helpers;
  return true;
}

// Takes a ready op. If there is none, returns kNone, and the calling thread is no longer active.
std::uint32_t take(GraphRun& run) noexcept {
  std::lock_guard guard(run.lock);
  if (!run.open || run.graph->ready.empty()) {
    --run.active_threads;
    return kNone;
  }
  std::vector<std::uint32_t>& ready = run.graph->ready;
  if (run.random) std::swap(ready[(*run.random)() % ready.size()], ready.back());
  const std::uint32_t i = ready.back();
  ready.pop_back();
  return i;
}

// The calling thread stops running ops of the launch. Other threads run op `next`, which it was about to run.
void hand_over(GraphRun& run, std::uint32_t next) noexcept {
  std::unique_lock guard(run.lock);
  --run.active_threads;
  if (next != kNone) run.graph->ready.push_back(next);
  if (!needs_helper(run)) return;
  guard.unlock();
  submit_helper_task(run, kNone);
}

// Call when op i is done. Ops that become ready go to graph.ready, except one that is returned if `keep_one`.
std::uint32_t release_next(GraphRun& run, std::uint32_t i, bool keep_one) noexcept {
  GraphState& graph = *run.graph;
  std::uint32_t kept = kNone;
  std::unique_lock guard(run.lock, std::defer_lock);
  for (std::uint32_t at = graph.first_next[i]; at < graph.first_next[i + 1]; ++at) {
    const std::uint32_t next = graph.next_ops[at];
    // acq_rel: the thread that runs `next` sees what all ops before it wrote.
    if (graph.before[next] > 1 && graph.waiting[next].fetch_sub(1, std::memory_order_acq_rel) > 1) continue;
    if (keep_one && kept == kNone) {
      kept = next;
      continue;
    }
    if (!guard.owns_lock()) guard.lock();
    graph.ready.push_back(next);
  }
  if (!guard.owns_lock() || !needs_helper(run)) return kept;
  guard.unlock();
  submit_helper_task(run, kNone);
  return kept;
}

// Runs ready ops until there are none, on an active thread. Returns how many of these ops are done.
std::uint32_t run_ready(GraphRun& run, int worker) noexcept {
  std::uint32_t done = 0;
  std::uint32_t blocked = this_thread_blocked;
  for (std::uint32_t i = take(run); i != kNone; i = take(run)) {
    while (i != kNone) {
      if (!run_op(run, i, worker)) break;
      ++done;
      end_memory(*run.graph, i);
      i = release_next(run, i, !run.random);
      if (this_thread_blocked == blocked) continue;
      blocked = this_thread_blocked;
      worker = run.core->scheduler().worker_now();
      if (worker >= 0) continue;
      hand_over(run, i);  // a thread without a worker slot may not start an op
      return done;
    }
  }
  return done;
}

void run_parallel(GraphRun& run, int worker) noexcept {
  const double began = graph_clock();
  const std::uint32_t done = run_ready(run, worker);
  if (done == 0) return;  // must not use `run`: other threads may have ended the launch
  run.busy.fetch_add(static_cast<std::uint64_t>(graph_clock() - began), std::memory_order_relaxed);
  // acq_rel: the thread that ends the launch sees what all others did.
  if (run.left.fetch_sub(done, std::memory_order_acq_rel) == done) end_launch(run);
}

struct HelperTask {
  GraphRun* run;
  std::uint32_t from;  // serial mode: index of the op to continue with; parallel mode: kNone

  static void help(void* self, RunContext& context, OpNode*) {
    const HelperTask task = *static_cast<HelperTask*>(self);
    GraphRun& run = *task.run;
    if (task.from == kNone) {
      std::unique_lock guard(run.lock);
      --run.queued_helpers;
      if (!run.open || run.graph->ready.empty()) return;
      ++run.active_threads;
      const bool more = run.graph->ready.size() > 1 && needs_helper(run);
      guard.unlock();
      if (more) submit_helper_task(run, kNone);
    }
    // Pushes and waits of the graph's ops count as made inside the launch.
    const InsideOp inside(run.core, run.op, context.worker);
    if (task.from == kNone) {
      run_parallel(run, context.worker);
    } else {
      run_serial(run, task.from, context.worker);
    }
  }
  static void destroy(void* self) noexcept { release(static_cast<HelperTask*>(self)->run); }
  static constexpr OpTable table{false, help, destroy, nullptr};
};

void submit_helper_task(GraphRun& run, std::uint32_t from) noexcept {
  EngineCore* core = run.core;  // not from run.graph, which may be freed by now
  core->scheduler().expect_help();
  core->budget.acquire_anyway(0);
  OpNode* op = allocate_op(core, 0, sizeof(HelperTask), false);
  op->table = &HelperTask::table;
  op->name = "help with a graph";
  retain(run);
  ::new (op->place()) HelperTask{&run, from};
  core->scheduler().submit(op);
}

void set_up_parallel(GraphRun& run) {
  GraphState& graph = *run.graph;
  graph.ready.clear();
  for (std::uint32_t i = graph.size(); i-- > 0;) {
    graph.waiting[i].store(graph.before[i], std::memory_order_relaxed);
    if (graph.before[i] == 0 && first_of(graph, i) == i) graph.ready.push_back(i);
  }
  run.active_threads = 1;
}

// Call when an op has ended elsewhere: op i of the graph, or the segment whose last op that is. Afterwards the launch may
// have ended.
void end_elsewhere(GraphRun& run, std::uint32_t i) noexcept {
  if (i + 1 < end_of(*run.graph, i))  // the ops of the segment are issued one by one
    return run.core->stream_ops.issue_in_turn(single_op_to_issue(run, i + 1), this_thread_state.worker);
  if (run.core->options.scheduler == Scheduler::naive) {
    EngineCore* const core = run.core;
    run.left.fetch_sub(1, std::memory_order_acq_rel);
    return core->scheduler().wake_waiters();
  }
  if (run.serial) return go_on(run, i + 1);
  {
    // Helper tasks pushed here count as pushed inside the launch.
    const InsideOp inside(run.core, run.op, this_thread_state.worker);
    release_next(run, i, false);
  }
  if (run.left.fetch_sub(1, std::memory_order_acq_rel) == 1) end_launch(run);
}

// Makes op i ready again, which was deferred.
void resume_op(GraphRun& run, std::uint32_t i) noexcept {
  if (run.core->options.scheduler == Scheduler::naive) {
    if (run_op(run, i, 0)) end_elsewhere(run, i);
    return;
  }
  if (run.serial) return go_on(run, i);
  run.work.fetch_add(1, std::memory_order_relaxed);  // the launch must not end before this function does
  {
    const InsideOp inside(run.core, run.op, this_thread_state.worker);
    std::unique_lock guard(run.lock);
    run.graph->ready.push_back(i);
    const bool more = needs_helper(run);
    guard.unlock();
    if (more) submit_helper_task(run, kNone);
  }
  end_work(run);
}

bool any_poison(const GraphState& graph) {
  return std::any_of(graph.accesses.begin(), graph.accesses.end(), [](const AccessNode& access) {
    const FenceSet* fences = access.var->fences.load(std::memory_order_acquire);
    return access.var->poison || (fences && fences->failure());
  });
}

}  // namespace

void release(GraphRun* run) noexcept {
  if (run->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete run;
}

bool join_launch(OpNode& op) noexcept {
  if (!op.extra->graph) return false;
  GraphState& graph = *op.extra->graph;
  std::lock_guard guard(graph.lock);
  OpNode* before = graph.after_last == op.sequence ? graph.last : nullptr;
  graph.last = &op;
  graph.after_last = op.sequence + op.numbers();
  if (before) {
    for (std::uint32_t i = 0; i < op.access_count; ++i) op.accesses()[i].granted = true;
    before->extra->then = &op;
  }
  return before != nullptr;
}

void launch_graph(OpNode* op, GraphRun& run) noexcept {
  GraphState& graph = *run.graph;
  const Scheduler scheduler = graph.core->options.scheduler;
  run.op = op;
  run.core = graph.core;
  run.first = op->sequence;
  // The access checker identifies the op that made a piece of data by its sequence number, which
  // run_checked() sets.
  run.check_errors =
      graph.async || graph.streams || checking.load(std::memory_order_relaxed) || any_poison(graph);
  plan_segments(graph);
  run.left = units(graph);
  run.open = true;
  run.began = graph_clock();
  const int worker = this_thread_state.worker;
  if (scheduler == Scheduler::naive || graph.ops.empty()) return run_in_order(run);
  if (scheduler == Scheduler::fuzz) {
    run.random =
        std::make_unique<std::mt19937_64>(graph.core->options.seed * 0x9E3779B97F4A7C15u + run.first);
  } else {
    run.max_threads = graph.core->scheduler().workers();
    // Ops that are all on streams are issued by one thread: threads would meet at the streams' gates.
    run.serial = !graph.async && (graph.chain || run.max_threads == 1 || (graph.streams && !graph.cpu) ||
                                  graph.mode_tuner.serial());
    if (run.serial) return run_serial(run, 0, worker);
  }
  set_up_parallel(run);
  if (std::unique_lock guard(run.lock); graph.ready.size() > 1 && needs_helper(run)) {
    guard.unlock();
    submit_helper_task(run, kNone);
  }
  run_parallel(run, worker);
}

void end_work(GraphRun& run) noexcept {
  // acq_rel: the thread that ends the launch sees what all others did.
  if (run.work.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  OpNode* const op = run.op;
  EngineCore& core = *run.core;
  {
    const InsideOp inside(&core, op, this_thread_state.worker);
    destroy_closure(op);  // frees `run` and perhaps the graph
  }
  core.budget.release(*op);
  core.scheduler().stream_work_done(op);
}

void graph_op_completed(OpNode* op, std::exception_ptr thrown) noexcept {
  GraphRun& run = *op->extra->launch;
  complete_op(run, *op, std::move(thrown));
  const std::uint32_t i = index_of(*op);
  end_memory(*run.graph, i);
  end_elsewhere(run, i);
}

void graph_op_issued(OpNode* op) noexcept {
  GraphRun& run = *op->extra->launch;
  run.work.fetch_add(1, std::memory_order_relaxed);
  set_poison(*op, nullptr);
  if (run.core->options.scheduler != Scheduler::naive) end_elsewhere(run, last_index_of(*op));
}

void graph_work_done(OpNode* op) noexcept {
  GraphRun& run = *op->extra->launch;
  const std::uint32_t i = last_index_of(*op);
  free_op(op);
  op_memory_flush();  // this thread may never free another op
  const bool naive = run.core->options.scheduler == Scheduler::naive;
  end_work(run);
  if (naive) end_elsewhere(run, i);  // until then the launch counts as work
}

void graph_op_skipped(OpNode* op, FailurePtr failure) noexcept {
  GraphRun& run = *op->extra->launch;
  const std::uint32_t i = index_of(*op);
  set_poison(*op, failure);
  failure.reset();  // before the launch ends, see OpScheduler::release_op()
  free_op(op);
  end_elsewhere(run, i);
}

void graph_op_resumes(OpNode* op) noexcept {
  GraphRun& run = *op->extra->launch;
  const std::uint32_t i = index_of(*op);
  free_op(op);
  resume_op(run, i);
}

// Whether one thread is to run the next launch: for ops shorter than kShortOp it is, for ops longer than
// kLongOp not. In between the mode that was faster is chosen. The other mode is tried again now and then,
// soon at first, since the first launch finds cold caches.
bool ModeTuner::serial() {
  constexpr double kShortOp = 300, kLongOp = 10'000;  // nanoseconds per op
  constexpr std::uint32_t kRarely = 64;               // launches between two trials of the other mode
  if (busy_ == kUnknown) return false;                // the first launch: ops may take seconds
  if (busy_ > kLongOp) return false;
  if (serial_ == kUnknown) return true;
  if (serial_ < kShortOp) return true;
  if (parallel_ == kUnknown) return false;
  const bool serial_is_better = serial_ < parallel_;
  if (++launches_ < until_probe_) return serial_is_better;
  launches_ = 0;
  until_probe_ = std::min(2 * until_probe_, kRarely);
  return !serial_is_better;
}

// Other load on the machine can only make a launch longer: so a shorter time replaces the old one at once, a
// longer one is averaged in.
void ModeTuner::completed(bool was_serial, double wall, double busy) {
  double& known = was_serial ? serial_ : parallel_;
  known = known == kUnknown || wall < known ? wall : known + (wall - known) / 8;
  busy_ = busy;
}

}  // namespace heddle::detail
