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

constexpr int kEnterBatch = 64;      // submissions entered at once
constexpr int kMostEntered = 64;     // so many rounds of these for an immediate op
constexpr std::uint32_t kTick = 16;  // every so many ops a worker looks at the clock,
// Nanoseconds an op, all told: below kShort it is not worth a cache line's way to another core; between that and
// kFine it may be worth it; above, or above kLong for one that was short, it is.
constexpr std::uint32_t kShort = 300, kLong = 600, kFine = 3000;
constexpr int kSlow =
    2;  // ticks in a row that make a worker give up doing all alone: one may be the system's doing
constexpr int kNextTrial = 256;  // ticks until it tries again

int worker_count(int wanted) { return wanted > 0 ? wanted : std::min(usable_cores().count(), kMostWorkers); }

}  // namespace

constinit thread_local ThreadedCore::Context ThreadedCore::worker_context;

ThreadedCore::ThreadedCore(const EngineOptions& engine_options)
    : EngineCore(engine_options),
      one_core_(cores_by_affinity() == 1),
      slots_(worker_count(engine_options.workers)),
      arena_(slots_.size()),
      pool_(slots_, [this] { work(); }) {
  try {
    pool_.start();
  } catch (const std::system_error& error) {
    stop();
    throw Error("cannot start " + std::to_string(workers()) + " worker threads: " + error.what());
  } catch (...) {  // no memory
    stop();
    throw;
  }
}

int ThreadedCore::worker_now() const {
  const Worker* worker = this_worker();
  return worker ? worker->slot->index : -1;
}

// What an op pushes belongs to that op's epoch: wait_all waits for it too, and so it counts before its parent has ended.
// The others' is that in which they are entered, and they count from then on.
void ThreadedCore::set_epoch(OpNode& op, const OpNode* parent) {
  op.epoch = parent ? parent->epoch : OpNode::kEpochOfEntry;
  if (parent) count_child(op.epoch);
}

void ThreadedCore::count_child(std::uint8_t epoch) {
  // release: pairs with counts_match().
  if (Worker* worker = this_worker()) {
    std::atomic<std::uint64_t>& children = worker->slot->children[epoch];
    children.store(children.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  } else {
    children_without_slot_[epoch].fetch_add(1, std::memory_order_release);
  }
}

inline const OpNode* ThreadedCore::submit_one(OpNode* op) {
  const OpNode* parent = current_op();
  set_epoch(*op, parent);
  if (op->priority() > 0) priority_queue_.announce();
  submissions_.push(op);
  return parent;
}

// Looks first: what is left to do after it would cost every push a dozen instructions.
void ThreadedCore::submit(OpNode* op) {
  if (op->immediate()) [[unlikely]]
    return submit_immediate(op);
  after_submit(submit_one(op));
}

// All workers may be busy for long, or asleep: it is entered here. Others that push without end need not be waited for.
void ThreadedCore::submit_immediate(OpNode* op) {
  submit_one(op);
  for (int i = 0; i < kMostEntered && !submissions_.empty(); ++i) enter_some();
  // Whoever is at it may be held up: then after it.
  ReadyList ready;
  for (int i = 0; i < kMostEntered && enter_batch(ready, true) > 0; ++i) schedule(ready);
  if (has_work()) wake_one();
}

void ThreadedCore::after_submit(const OpNode* parent) {
  // An op that pushes ops enters them itself, before those that wait in its queue: depth first, in little memory.
  if (parent && this_worker()) {
    ReadyList ready;
    enter_batch(ready);
    schedule(ready);
  }
  wake_one();
}

// Enters up to kEnterBatch submissions and appends those ready to run. Returns how many were entered, -1 if
// another thread is at it: if patient, waits for that one first.
int ThreadedCore::enter_batch(ReadyList& ready, bool patient) {
  if (submissions_.empty()) return -1;
  if (patient) {
    submissions_.lock();
  } else if (!submissions_.try_lock()) {
    return -1;
  }
  QueueNode* others = nullptr;  // ready, of other kinds or priorities: seen to outside the lock
  int announced = 0;
  bool marked = false;
  int count = 0;
  for (; count < kEnterBatch; ++count) {
    QueueNode* node = submissions_.pop();
    if (!node) break;
    bool is_ready = true;
    const OpKind kind = node->kind;  // an op that is entered may run and be gone
    std::int32_t priority = 0;
    if (kind == OpKind::mark) {
      epoch_ ^= 1;
      marked = true;
      continue;
    }
    if (kind != OpKind::drop) {
      auto* op = static_cast<OpNode*>(node);
      __builtin_prefetch(reinterpret_cast<std::byte*>(op) + 4 * kOpAlign);
      __builtin_prefetch(reinterpret_cast<std::byte*>(op) + 5 * kOpAlign);
      op->sequence = std::exchange(sequence_, sequence_ + op->numbers());
      if (op->epoch == OpNode::kEpochOfEntry) {
        op->epoch = epoch_;
        ++entered_[epoch_];
      }
      priority = op->priority();
      announced += priority > 0;
      const std::shared_ptr<WaitState> state = kind == OpKind::wait ? op->extra->wait : nullptr;
      is_ready = op->extra && join_launch(*op) ? false : enter(*op);
      if (state) state->entered.store(true, std::memory_order_release);
    }
    if (!is_ready) continue;
    if (kind == OpKind::user && static_cast<OpNode*>(node)->plain()) {
      ready.push_back(static_cast<OpNode*>(node));
    } else {
      node->next.store(others, std::memory_order_relaxed);
      others = node;
    }
  }
  submissions_.unlock();
  while (others) {
    QueueNode* next = others->next.load(std::memory_order_relaxed);
    if (others->kind == OpKind::user) {
      made_ready(static_cast<OpNode*>(others), ready);
    } else {
      run_internal(others, ready);
    }
    others = next;
  }
  if (announced > 0) priority_queue_.entered(announced);
  if (marked) check_balance();
  return count;
}

// One of a priority other than 0, or immediate.
void ThreadedCore::made_ready(OpNode* op, ReadyList&) noexcept {
  if (op->immediate()) [[unlikely]]
    return start_now(op);
  priority_queue_.push(op);
  wake_one();
}

// What these make ready may be immediate too: then one after the other, not one inside the other.
void ThreadedCore::start_now(OpNode* op) noexcept {
  if (worker_context.starting) return worker_context.starting->push_back(op);
  note_thread_end();
  ReadyList starting;
  starting.push_back(op);
  worker_context.starting = &starting;
  while (!starting.empty()) {
    OpNode* next = starting.pop_front();
    auto* core = static_cast<ThreadedCore*>(next->extra->core);  // another engine's op may end here too
    const Worker* worker = core->this_worker();
    const std::uint8_t epoch = next->epoch;
    ReadyList ready;
    core->retain();  // its last op's end may let that engine go while this thread is still on its way out of it
    if (core->EngineCore::run(next, worker ? worker->slot->index : 0, ready))
      core->completed_elsewhere(epoch, ready);
    core->release();
  }
  worker_context.starting = nullptr;
}

// Empties `ready`.
void ThreadedCore::schedule(ReadyList& ready) {
  if (ready.empty()) return;
  // A worker goes on with what it made ready last.
  if (Worker* worker = this_worker()) {
    worker->slot->queue.push_front(ready);
  } else {
    ready_without_slot_.push_back(ready);
  }
  wake_one();
}

// release: pairs with balanced(). A plain addition: nobody else writes it.
static void count_completed(WorkerSlot& slot, std::uint8_t epoch) noexcept {
  std::atomic<std::uint64_t>& ended = slot.ended[epoch];
  ended.store(ended.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void ThreadedCore::completed_elsewhere(std::uint8_t epoch, ReadyList& ready) noexcept {
  Worker* worker = this_worker();
  if (worker) {
    count_completed(*worker->slot, epoch);
  } else {
    ended_without_slot_[epoch].fetch_add(1, std::memory_order_release);
  }
  schedule(ready);
  if (!worker) op_memory_flush();
  check_balance();  // for those that it runs itself a worker does when an epoch, or its work, is at an end
}

// Whoever issues may go on issuing what others leave at the gate: what op makes ready is open to all.
void ThreadedCore::issued(OpNode* op) noexcept {
  ReadyList ready;
  release_vars(op, nullptr, ready);
  schedule(ready);
}

void ThreadedCore::ended(OpNode* op) noexcept {
  const std::uint8_t epoch = op->epoch;
  free_op(op);
  op_memory_flush();
  ended_without_slot_[epoch].fetch_add(1, std::memory_order_release);
  check_balance();
}

void ThreadedCore::resume(OpNode* op) noexcept {
  if (op->priority() != 0) return priority_queue_.push(op), idle_workers_.notify();
  ReadyList ready;
  ready.push_back(op);
  schedule(ready);
}

// Runs op; returns the first op that this made ready, the others go to the slot's queue.
OpNode* ThreadedCore::run(OpNode* op, Worker& self) {
  const std::uint8_t epoch = op->epoch;
  // Between two ops of an epoch it cannot be over. Nobody knows how long one of the next will take.
  if (epoch != self.epoch) [[unlikely]]
    check_balance();
  ReadyList ready;
  const bool completed = EngineCore::run(op, self.slot->index, ready);
  self.epoch = epoch;
  if (!self.slot) {  // it blocked, and went on without one
    if (completed) completed_elsewhere(epoch, ready);
    return nullptr;
  }
  if (completed) count_completed(*self.slot, epoch);
  if (++self.ops % kTick == 0) tick(self);
  if (ready.empty()) return nullptr;
  if (self.look_outside) {
    // Behind what lies in the queue: else an endless chain, whose next op is always the last made ready, would keep it
    // there for ever.
    self.slot->queue.push_back(ready);
    wake_one();
    return nullptr;
  }
  OpNode* next = ready.pop_front();
  schedule(ready);
  return or_higher_priority(next, self);
}

void ThreadedCore::tick(Worker& self) {
  if (self.ops % kFairness == 0) {
    self.look_outside = true;
    check_balance();
  }
  const std::uint64_t now = nanoseconds();
  const auto each = static_cast<std::uint32_t>((now - std::exchange(self.ticked, now)) / kTick);
  self.slot->nanoseconds.store(each, std::memory_order_relaxed);
  if (!is_exclusive(self)) {
    if (each < kFine) consider_exclusive(self, each);
  } else if (each <= std::max(kLong, self.together)) {
    self.slow = 0;
  } else if (++self.slow == kSlow) {
    self.slow = 0;
    self.trial = -kNextTrial;
    end_exclusive(self);
  }
}

// Workers whose ops are short are in each other's way: what one has written, the other has to fetch. If all of them are
// fine-grained, this one tries how it does alone.
void ThreadedCore::consider_exclusive(Worker& self, std::uint32_t each) {
  std::uint32_t workers = 0;
  for (const WorkerSlot& slot : slots_) {
    if (!slot.taken.load(std::memory_order_relaxed)) continue;
    if (slot.nanoseconds.load(std::memory_order_relaxed) > kFine) return;
    ++workers;
  }
  if (each >= kShort && (workers < 2 || ++self.trial < 0)) return;
  self.together = workers < 2 ? 0 : each / workers;
  become_exclusive(self);
}

void ThreadedCore::drop(VarState& var) noexcept {
  if (forked()) return;
  retain();  // the var may hold the last reference
  submissions_.push(&var);
  // Somebody has to let go of it: with nobody about who will look here soon, that is us.
  if (stopping_ || slots_.all_free()) {
    ReadyList ready;
    do {
      enter_batch(ready);
    } while (stopping_ && !submissions_.empty());
    schedule(ready);
    op_memory_flush();  // of ops that wait for the var: this thread may free no other
    check_balance();
  }
  release();
}

bool ThreadedCore::has_submitted(const VarState& var) const {
  bool found = false;
  const bool whole = submissions_.for_each([&](const QueueNode& node) {
    if (node.kind == OpKind::drop || node.kind == OpKind::mark) return true;
    const auto& op = static_cast<const OpNode&>(node);
    for (std::uint32_t i = 0; i < op.access_count; ++i) found |= op.accesses()[i].var == &var;
    return !found;
  });
  return found || !whole;
}

void ThreadedCore::expect_help() {
  if (Worker* worker = this_worker()) end_exclusive(*worker);
}

void ThreadedCore::parallel(std::int64_t count, std::int64_t grain,
                            const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (workers() == 1) return Scheduling::parallel(count, grain, body);
  expect_help();
  auto loop = std::make_shared<ParallelLoop>(count, grain, body, this_thread_state.op);
  loops_.open(loop);
  wake_one();
  loop->work();
  loops_.close(loop.get());
  if (!loop->helpers_left_soon()) {
    // A helper may be waiting inside its chunk, and need our slot to go on. If nobody can be found to take the slot,
    // the helpers that hold one can still end.
    try {
      begin_blocking();
    } catch (const Error&) {
    }
    loop->await_helpers();
    end_blocking();
  }
  loop->rethrow();
}

EngineCore* make_threaded_core(const EngineOptions& options) { return new ThreadedCore(options); }

}  // namespace heddle::detail
