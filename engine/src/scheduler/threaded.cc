#include "scheduler/threaded.h"

#include <algorithm>
#include <string>
#include <system_error>

#include <heddle/usable_cores.h>

#include "base/cores.h"
#include "graph/graph_state.h"
#include "op/op_memory.h"
#include "op/tracker.h"

namespace heddle::detail {
namespace {

// The push of an immediate op makes at most so many calls of enter_some(), and then enters at most so many
// batches.
constexpr int kMostEntered = 64;
constexpr std::uint32_t kTick = 16;  // number of ops between two readings of the clock
// Ops so short that moving one to another core costs more than running it are left to one worker, the exclusive one.
// The limits are average nanoseconds per op: a worker whose ops take less than kShort becomes exclusive; one whose
// ops take less than kFine tries it; an exclusive worker whose ops take more than kLong is no longer exclusive.
constexpr std::uint32_t kShort = 300, kLong = 600, kFine = 3000;
// Number of consecutive ticks above kLong that end exclusivity. One such tick may come from an interrupt.
constexpr int kSlowTicks = 2;
constexpr int kTrialDelay = 256;  // number of ticks before a worker tries again to be exclusive

int worker_count(int wanted) { return wanted > 0 ? wanted : std::min(usable_cores().count(), kMostWorkers); }

}  // namespace

constinit thread_local ThreadedScheduler::Context ThreadedScheduler::worker_context;

ThreadedScheduler::ThreadedScheduler(EngineCore& core)
    : OpScheduler(core),
      one_core_(cores_by_affinity() == 1),
      slots_(worker_count(core.options.workers)),
      arena_(slots_.size()),
      pool_(slots_, [this] {
        if (core_.options.on_thread_start) core_.options.on_thread_start();
        work();
        if (core_.options.on_thread_end) core_.options.on_thread_end();
      }) {
  try {
    pool_.start();
  } catch (const std::system_error& error) {
    stop();
    throw Error("cannot start " + std::to_string(workers()) + " worker threads: " + error.what());
  } catch (...) {  // for example std::bad_alloc
    stop();
    throw;
  }
}

int ThreadedScheduler::worker_now() const {
  const Worker* worker = this_worker();
  return worker ? worker->slot->index : -1;
}

// An op that is pushed inside an op has the epoch of that parent: wait_all waits for both, so the child counts from now on,
// before its parent has ended. Any other op gets its epoch, and counts, when it is entered.
void ThreadedScheduler::set_epoch(OpNode& op, const OpNode* parent) {
  op.epoch = parent ? parent->epoch : OpNode::kEpochOfEntry;
  if (parent) epochs_.count_child(op.epoch, slot_here());
}

// The slot that the calling thread holds; null: it holds none.
WorkerSlot* ThreadedScheduler::slot_here() const {
  const Worker* worker = this_worker();
  return worker ? worker->slot : nullptr;
}

inline const OpNode* ThreadedScheduler::submit_one(OpNode* op) {
  const OpNode* parent = core_.current_op();
  set_epoch(*op, parent);
  if (op->priority() > 0) priority_queue_.announce();
  submissions_.push(op);
  return parent;
}

// Immediate ops are handled first, since a check after the submission would cost every push a dozen
// instructions.
void ThreadedScheduler::submit(OpNode* op) {
  if (op->immediate()) [[unlikely]]
    return submit_immediate(op);
  if ((op->flags & OpNode::kBrief) && run_brief(op)) return;
  after_submit(submit_one(op));
}

// Enters op if all earlier submissions are entered, and runs it on the calling thread if it is ready. Returns
// false, with nothing done, if another thread is entering submissions, if no slot is free, or inside an op:
// an op pushed there is counted in another way, see set_epoch().
bool ThreadedScheduler::run_brief(OpNode* op) {
  if (op->extra || this_thread_state.core || stopping_ || !submissions_.empty() || pool_.slot_wanted())
    return false;
  Worker self;
  if (!take_slot(self)) return false;
  bool is_ready = false, entered = false;
  if (submissions_.try_lock()) {
    entered = submissions_.empty();
    if (entered) {
      op->sequence = sequence_.load(std::memory_order_relaxed);
      sequence_.store(op->sequence + 1, std::memory_order_relaxed);
      op->epoch = epochs_.count_entered();
      is_ready = enter(*op);
    }
    submissions_.unlock();
  }
  if (is_ready) {
    note_thread_end();
    self.epoch = op->epoch;
    const WorkerScope scope(this, &self);
    if (OpNode* next = run(op, self)) {
      ReadyList ready;
      ready.push_back(next);
      schedule(ready);
    }
  }
  release_slot(self);
  if (is_ready) {
    epochs_.check();  // perhaps no worker runs that would make this check
    if (can_work()) wake_one();
  }
  return entered;
}

// All workers may be busy for long, or parked, so the op is entered here. The rounds are bounded: other threads may
// push without end.
void ThreadedScheduler::submit_immediate(OpNode* op) {
  submit_one(op);
  for (int i = 0; i < kMostEntered && !submissions_.empty(); ++i) enter_some();
  // Another thread that enters a batch may have been preempted: enter_batch() waits for that one first.
  ReadyList ready;
  for (int i = 0; i < kMostEntered && enter_batch(ready, true) > 0; ++i) schedule(ready);
  if (has_work()) wake_one();
}

void ThreadedScheduler::after_submit(const OpNode* parent) {
  // An op that pushes ops enters them itself, before the ops in its slot's queue. So they run depth first,
  // which takes little memory.
  if (parent && this_worker()) {
    ReadyList ready;
    enter_batch(ready);
    schedule(ready);
  }
  wake_one();
}

// Enters up to kEnterBatch submissions and appends those ready to run. Returns how many were entered; -1 if
// there are none, or another thread is entering some. With `patient`, waits for that other thread instead.
int ThreadedScheduler::enter_batch(ReadyList& ready, bool patient) {
  if (submissions_.empty()) return -1;
  if (patient) {
    submissions_.lock();
  } else if (!submissions_.try_lock()) {
    return -1;
  }
  QueueNode* others = nullptr;  // ready nodes that are not plain() users' ops; handled after the unlock
  int announced = 0;
  int drops[2] = {};  // number of vars to be deleted, by epoch
  bool marked = false;
  int count = 0;
  for (; count < kEnterBatch; ++count) {
    QueueNode* node = submissions_.pop();
    if (!node) break;
    bool is_ready = true;
    const OpKind kind = node->kind;  // read now: an op that is entered may run and be freed
    std::int32_t priority = 0;
    if (kind == OpKind::epoch_end) {
      epochs_.end_open();
      marked = true;
      continue;
    }
    if (kind != OpKind::delete_var) {
      auto* op = static_cast<OpNode*>(node);
      // The next op is probably adjacent in memory, four cache lines on.
      __builtin_prefetch(reinterpret_cast<std::byte*>(op) + 4 * kOpAlign);
      __builtin_prefetch(reinterpret_cast<std::byte*>(op) + 5 * kOpAlign);
      op->sequence = sequence_.load(std::memory_order_relaxed);
      sequence_.store(op->sequence + op->numbers(), std::memory_order_relaxed);
      if (op->epoch == OpNode::kEpochOfEntry) op->epoch = epochs_.count_entered();
      priority = op->priority();
      announced += priority > 0;
      const std::shared_ptr<WaitState> state = kind == OpKind::wait ? op->extra->wait : nullptr;
      is_ready = op->extra && join_launch(*op) ? false : enter(*op);
      if (state) state->entered.store(true, std::memory_order_release);
    }
    if (!is_ready) continue;
    drops[epochs_.open()] += kind == OpKind::delete_var;
    if (kind == OpKind::user && static_cast<OpNode*>(node)->plain()) {
      ready.push_back(static_cast<OpNode*>(node));
    } else {
      node->next.store(others, std::memory_order_relaxed);
      others = node;
    }
  }
  epochs_.begin_deleting(drops);
  submissions_.unlock();
  release_entered(others, ready);
  if (announced > 0) priority_queue_.entered(announced);
  epochs_.end_deleting(drops);
  if (marked || drops[0] + drops[1] > 0) epochs_.check();
  return count;
}

// Handles ready submissions other than users' ops that are plain(): waits, drops, immediate and prioritized
// ops.
void ThreadedScheduler::release_entered(QueueNode* nodes, ReadyList& ready) {
  while (nodes) {
    QueueNode* next = nodes->next.load(std::memory_order_relaxed);
    if (nodes->kind == OpKind::user) {
      made_ready(static_cast<OpNode*>(nodes), ready);
    } else {
      core_.run_internal(nodes, ready);
    }
    nodes = next;
  }
}

// op has a priority other than 0, or is immediate.
void ThreadedScheduler::made_ready(OpNode* op, ReadyList&) noexcept {
  if (op->immediate()) [[unlikely]]
    return start_now(op);
  priority_queue_.push(op);
  wake_one();
}

// The ops that op makes ready may be immediate too. They are started one after the other, so that the stack does not grow.
void ThreadedScheduler::start_now(OpNode* op) noexcept {
  if (worker_context.starting) return worker_context.starting->push_back(op);
  note_thread_end();
  ReadyList starting;
  starting.push_back(op);
  worker_context.starting = &starting;
  while (!starting.empty()) {
    OpNode* next = starting.pop_front();
    EngineCore* const core = next->extra->core;  // an op of another engine may be started here too
    auto& scheduler = static_cast<ThreadedScheduler&>(core->scheduler());
    const Worker* worker = scheduler.this_worker();
    const std::uint8_t epoch = next->epoch;
    ReadyList ready;
    core->retain();  // the end of its last op may destroy that engine while this thread still uses it
    if (core->run(next, worker ? worker->slot->index : 0, ready)) scheduler.completed_elsewhere(epoch, ready);
    core->release();
  }
  worker_context.starting = nullptr;
}

// Queues the ops of `ready`, and leaves it empty.
void ThreadedScheduler::schedule(ReadyList& ready) {
  if (ready.empty()) return;
  // A worker continues with the ops that it made ready last, since their data is in its cache.
  if (Worker* worker = this_worker()) {
    worker->slot->queue.push_front(ready);
  } else {
    ready_without_slot_.push_back(ready);
  }
  wake_one();
}

void ThreadedScheduler::completed_elsewhere(std::uint8_t epoch, ReadyList& ready) noexcept {
  WorkerSlot* const slot = slot_here();
  epochs_.count_ended(epoch, slot);
  schedule(ready);
  if (!slot) op_memory_flush();
  epochs_.check();  // workers make this check only at the end of an epoch, or when they run out of work
}

// Ops that op makes ready go to a queue for all workers, since the issuing thread may have to issue more ops that wait
// at the gate.
void ThreadedScheduler::issued(OpNode* op) noexcept {
  ReadyList ready;
  core_.release_vars(op, nullptr, ready);
  schedule(ready);
}

void ThreadedScheduler::stream_work_done(OpNode* op) noexcept {
  const std::uint8_t epoch = op->epoch;
  free_op(op);
  op_memory_flush();
  epochs_.count_ended(epoch, nullptr);
  epochs_.check();
}

void ThreadedScheduler::resume(OpNode* op) noexcept {
  if (op->priority() != 0) return priority_queue_.push(op), idle_workers_.notify();
  ReadyList ready;
  ready.push_back(op);
  schedule(ready);
}

// Runs op; returns the first op that this made ready, the others go to the queue of the slot.
OpNode* ThreadedScheduler::run(OpNode* op, Worker& self) {
  const std::uint8_t epoch = op->epoch;
  // An epoch ends with the last of its ops at the earliest. The check is made now, since an op of the next epoch may
  // take long.
  if (epoch != self.epoch) [[unlikely]]
    epochs_.check();
  ReadyList ready;
  const bool completed = core_.run(op, self.slot->index, ready);
  self.epoch = epoch;
  if (!self.slot) {  // op blocked, and continued without a slot
    if (completed) completed_elsewhere(epoch, ready);
    return nullptr;
  }
  if (completed) epochs_.count_ended(epoch, self.slot);
  if (++self.ops % kTick == 0) tick(self);
  if (ready.empty()) return nullptr;
  if (self.look_outside) {
    // The new ops go behind those in the queue, which an endless chain of ops that make each other ready would
    // otherwise starve.
    self.slot->queue.push_back(ready);
    wake_one();
    return nullptr;
  }
  OpNode* next = ready.pop_front();
  schedule(ready);
  return or_higher_priority(next, self);
}

void ThreadedScheduler::tick(Worker& self) {
  if (self.ops % kFairness == 0) {
    self.look_outside = true;
    epochs_.check();
  }
  const std::uint64_t now = nanoseconds();
  if (self.move_at > 0 && now >= self.move_at) [[unlikely]] {
    self.move_at = 0;
    change_core();
  }
  const std::uint64_t last = std::exchange(self.last_tick, now);
  if (last == 0) return;  // the first tick of a thread that helps while it waits
  const auto each = static_cast<std::uint32_t>((now - last) / kTick);
  self.slot->nanoseconds.store(each, std::memory_order_relaxed);
  if (!is_exclusive(self)) {
    if (each < kFine) consider_exclusive(self, each);
  } else if (each <= std::max(kLong, self.shared_op_time)) {
    self.slow_ticks = 0;
  } else if (++self.slow_ticks == kSlowTicks) {
    self.slow_ticks = 0;
    self.trial_delay = kTrialDelay;
    end_exclusive(self);
  }
}

// Workers whose ops are short slow each other down, since each fetches the cache lines that another one wrote. If the
// ops of all workers are that short, this worker tries to run all of them alone.
void ThreadedScheduler::consider_exclusive(Worker& self, std::uint32_t each) {
  std::uint32_t workers = 0;
  for (const WorkerSlot& slot : slots_) {
    if (!slot.taken.load(std::memory_order_relaxed)) continue;
    if (slot.nanoseconds.load(std::memory_order_relaxed) > kFine) return;
    ++workers;
  }
  if (each >= kShort && (workers < 2 || (self.trial_delay > 0 && --self.trial_delay > 0))) return;
  self.shared_op_time = workers < 2 ? 0 : each / workers;
  become_exclusive(self);
}

void ThreadedScheduler::drop(VarState& var) noexcept {
  if (core_.forked()) return;
  core_.retain();  // the var may hold the last reference on the core
  submissions_.push(&var);
  // If no worker runs, this thread deletes the var itself.
  if (stopping_ || slots_.all_free()) {
    ReadyList ready;
    do {
      enter_batch(ready);
    } while (stopping_ && !submissions_.empty());
    schedule(ready);
    op_memory_flush();  // publishes the ops freed with the var: this thread may never free another one
    epochs_.check();
  }
  core_.release();
}

bool ThreadedScheduler::all_entered() noexcept {
  // The thread that holds the lock may have popped ops that it has not entered yet.
  if (!submissions_.empty() || !submissions_.try_lock()) return false;
  const bool empty = submissions_.empty();
  submissions_.unlock();
  return empty;
}

bool ThreadedScheduler::has_submitted(const VarState& var) const {
  bool found = false;
  const bool whole = submissions_.for_each([&](const QueueNode& node) {
    if (node.kind == OpKind::delete_var || node.kind == OpKind::epoch_end) return true;
    const auto& op = static_cast<const OpNode&>(node);
    for (std::uint32_t i = 0; i < op.access_count; ++i) found |= op.accesses()[i].var == &var;
    return !found;
  });
  return found || !whole;
}

void ThreadedScheduler::expect_help() {
  if (Worker* worker = this_worker()) end_exclusive(*worker);
}

void ThreadedScheduler::parallel(std::int64_t count, std::int64_t grain,
                                 const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (workers() == 1) return OpScheduler::parallel(count, grain, body);
  expect_help();
  auto loop = std::make_shared<ParallelLoop>(count, grain, body, this_thread_state.op);
  loops_.open(loop);
  wake_one();
  loop->work();
  loops_.close(loop.get());
  if (!loop->helpers_left_soon()) {
    // A helper may wait inside its chunk, and need this thread's slot in order to continue. If no thread can be
    // started for the slot, the helpers that hold a slot can still end.
    try {
      begin_blocking();
    } catch (const Error&) {
    }
    loop->await_helpers();
    end_blocking();
  }
  loop->rethrow();
}

std::unique_ptr<OpScheduler> make_threaded_scheduler(EngineCore& core) {
  return std::make_unique<ThreadedScheduler>(core);
}

}  // namespace heddle::detail
