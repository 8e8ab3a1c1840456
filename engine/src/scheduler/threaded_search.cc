// The search for work: where a worker looks, in which order and for how long.
#include <algorithm>
#include <chrono>
#include <thread>

#include "op/op_memory.h"
#include "scheduler/threaded.h"

namespace heddle::detail {
namespace {

constexpr std::size_t kBatch = 16;  // ops taken at once from a queue that other workers use too
constexpr int kSearchLooks = 50;  // attempts to find work before a worker parks: 30 to 60 microseconds in all
constexpr int kMostPauses = 32;   // most pause instructions between two looks for work
constexpr int kMostLookInterval = 64;  // most pause instructions between two looks at the submissions
constexpr int kSpinPauses = 2;         // pause instructions between two looks while a worker spins
// Nanoseconds of work after which a worker leaves its waker's core: longer than a small op, since a move costs two system calls.
constexpr std::uint64_t kBesideWaker = 5'000;
constexpr int kFailedLooks = 8;  // looks that found work but did not get it, before the thread yields
constexpr int kIdleRounds = 20;  // milliseconds without work before the monitor parks

}  // namespace

bool ThreadedScheduler::take_slot(Worker& self) {
  if (!self.slot) self.slot = slots_.take(self.last_slot);
  return self.slot != nullptr;
}

// Afterwards the caller has to look for work, or wake a thread that does.
void ThreadedScheduler::release_slot(Worker& self) {
  if (!self.slot) return;
  self.last_slot = std::exchange(self.slot, nullptr);
  slots_.release(*self.last_slot);
  pool_.slot_released();
}

bool ThreadedScheduler::has_work() const { return !submissions_.empty() || has_ready(); }

bool ThreadedScheduler::has_ready() const {
  if (!loops_.empty() || !ready_without_slot_.empty() || !priority_queue_.empty()) return true;
  for (const WorkerSlot& slot : slots_) {
    if (!slot.queue.empty()) return true;
  }
  return false;
}

bool ThreadedScheduler::can_work() const {
  if (stopping_) return true;
  return is_open() && has_work();
}

// Whether one more worker may run ops.
bool ThreadedScheduler::is_open() const {
  return slots_.any_free() && !exclusive_worker_.load(std::memory_order_seq_cst) && !pool_.slot_wanted();
}

OpNode* ThreadedScheduler::take_from(ReadyQueue& queue, Worker& self) {
  ReadyList batch;
  queue.take(batch, kBatch);
  if (batch.empty()) return nullptr;
  OpNode* first = batch.pop_front();
  if (!batch.empty()) self.slot->queue.push_back(batch);
  return first;
}

// Enters submitted ops, with `until_ready` until some are ready. The ops that are not ready wait for ops that
// run or are queued.
OpNode* ThreadedScheduler::take_entered(Worker& self, bool until_ready) {
  ReadyList ready;
  while (enter_batch(ready) > 0 && ready.empty() && until_ready) {
  }
  if (ready.empty()) return nullptr;
  OpNode* first = ready.pop_front();
  if (!ready.empty()) {
    self.slot->queue.push_back(ready);
    wake_one();
  }
  return first;
}

OpNode* ThreadedScheduler::find(Worker& self) { return or_higher_priority(find_next(self), self); }

// `op` is about to run, or null. If an op that comes before it by priority is ready, or was submitted, returns that one and
// queues op again.
OpNode* ThreadedScheduler::or_higher_priority(OpNode* op, Worker& self) {
  if (!priority_queue_.before(op ? op->sequence : PriorityQueue::kNothing)) return op;
  ReadyList ready;
  // Ops of priority 0 are entered when they are needed; without this loop an op of high priority would wait behind all
  // of them. enter_batch() waits for the lock, whose holder may have been preempted: any other op has lower priority.
  while (priority_queue_.any_announced() && enter_batch(ready, true) > 0) {
  }
  if (!ready.empty()) {
    self.slot->queue.push_back(ready);
    wake_one();
  }
  // An op entered just now, here or by another thread, may come before the prioritized one.
  if (!op) op = find_next(self);
  OpNode* prioritized = priority_queue_.take_before(op ? op->sequence : PriorityQueue::kNothing);
  if (!op || !prioritized) return prioritized ? prioritized : op;
  ready.push_back(op);
  schedule(ready);
  return prioritized;
}

OpNode* ThreadedScheduler::find_next(Worker& self) {
  const int own = self.slot->index;
  if (std::exchange(self.look_outside, false)) {
    if (OpNode* op = take_entered(self, false)) return op;
    if (OpNode* op = take_from(ready_without_slot_, self)) return op;
    WorkerSlot& other = slots_.begin()[self.ops / kFairness % static_cast<std::uint32_t>(slots_.size())];
    if (OpNode* op = other.index == own ? nullptr : take_from(other.queue, self)) return op;
  }
  if (OpNode* op = self.slot->queue.take_one()) return op;
  if (OpNode* op = take_entered(self, true)) return op;
  if (OpNode* op = take_from(ready_without_slot_, self)) return op;
  for (int i = 1; i < slots_.size(); ++i) {
    if (OpNode* op = take_from(slots_.begin()[(own + i) % slots_.size()].queue, self)) return op;
  }
  return nullptr;
}

// Must not be called between taking an op and running it, since a chunk of the loop might wait for that op.
bool ThreadedScheduler::join_loop(Worker& self) {
  std::shared_ptr<ParallelLoop> loop = loops_.enter();
  if (!loop) return false;
  const bool later = loop->op->epoch != self.epoch;
  if (later) epochs_.check();  // an epoch may have ended, see run()
  if (later && self.stop_signal) {
    self.done_helping = true;
    ParallelLoops::leave(*loop);
    return false;
  }
  if (!loop->exhausted()) {
    const InsideOp inside(&core_, loop->op, self.slot->index);
    loop->work();
  }
  loops_.close(loop.get());
  ParallelLoops::leave(*loop);
  return true;
}

// Lets time pass between two looks for work. On one core no other thread pushes or completes ops while this one looks,
// so it yields. It does not park, because waking it for the next op would take longer.
void ThreadedScheduler::let_time_pass(int pauses) const {
  if (one_core_) return std::this_thread::yield();
  for (int i = 0; i < pauses; ++i) cpu_relax();
}

// Looks for work for a while. Returns an op, and then the thread holds a slot; or null, and then it holds none. The thread
// counts as searching before and after.
OpNode* ThreadedScheduler::search(Worker& self) {
  int failed_looks = 0;
  // look_interval: number of pauses between two looks at the submissions; since_look: number since the last
  // one.
  int look_interval = 1, since_look = 1;
  for (int looks = 0; looks < kSearchLooks && !stopping_; ++looks) {
    if (self.done_helping ||
        (self.stop_signal && self.stop_signal->load(std::memory_order_relaxed) != self.stop_signal_value))
      break;
    const bool look_at_all = since_look >= look_interval || is_exclusive(self) || one_core_;
    if ((is_exclusive(self) ? !pool_.slot_wanted() : is_open()) && (look_at_all ? has_work() : has_ready())) {
      if (!take_slot(self)) continue;
      if (!loops_.empty()) {
        if (idle_workers_.end_search() && can_work()) wake_one();
        auto join = [&] { join_loop(self); };
        arena_.run([](void* call) { (*static_cast<decltype(join)*>(call))(); }, &join);
        idle_workers_.begin_search();
        looks = 0;
      }
      OpNode* op = self.slot ? find(self) : nullptr;
      if (op) return op;
      release_slot(self);
      // There is work that this thread cannot get, since a thread that pushes or enters ops was preempted
      // halfway, perhaps by this one.
      if (++failed_looks % kFailedLooks == 0) std::this_thread::yield();
    } else if (!is_exclusive(self) &&
               (exclusive_worker_.load(std::memory_order_relaxed) || !slots_.any_free())) {
      break;
    }
    // A look at the submissions takes their cache line from the pushing thread, and perhaps an op which that thread is
    // about to wait for and would run itself. So the interval doubles. The queues of workers are looked at each time.
    if (std::exchange(since_look, look_at_all ? 0 : since_look) >= look_interval)
      look_interval = std::min(2 * look_interval, kMostLookInterval);
    const int pauses = std::min(looks + 1, kMostPauses);
    let_time_pass(pauses);
    since_look += pauses;
  }
  return nullptr;
}

void ThreadedScheduler::become_exclusive(Worker& self) {
  Worker* nobody = nullptr;
  if (!exclusive_worker_.compare_exchange_strong(nobody, &self, std::memory_order_seq_cst)) return;
  idle_workers_.begin_search();
  idle_workers_.need_monitor();
}

void ThreadedScheduler::end_exclusive(Worker& self) {
  Worker* me = &self;
  if (!is_exclusive(self)) return;
  // The exchange fails if the monitor has taken this worker to be stuck; then the monitor has called
  // end_search() already.
  if (!exclusive_worker_.compare_exchange_strong(me, nullptr, std::memory_order_seq_cst)) return;
  idle_workers_.end_search();
  if (can_work()) wake_one();
}

// Called between two ops: releases the slot if a thread inside an op wants one, or if another worker is
// exclusive. `op`, the next one to run or null, is queued again.
bool ThreadedScheduler::yield_slot(OpNode* op, Worker& self) {
  if (!self.slot) return true;
  const Worker* other = exclusive_worker_.load(std::memory_order_relaxed);
  if (!pool_.slot_wanted() && (!other || other == &self)) return false;
  if (op) {
    ReadyList in_hand;
    in_hand.push_back(op);
    self.slot->queue.push_front(in_hand);
  }
  release_slot(self);
  return true;
}

// A thread in wait_all leaves ops that were pushed after its call to others, since such an op could keep the thread
// longer than its wait lasts, and for ever if the op waits for something that this thread does later. Queues op again
// then.
bool ThreadedScheduler::is_after_wait_all(OpNode* op, Worker& self) {
  if (!self.stop_signal || op->epoch == self.epoch) return false;
  ReadyList in_hand;
  in_hand.push_back(op);
  self.slot->queue.push_front(in_hand);
  return self.done_helping = true;
}

// Looks for work for as long as EngineOptions::spin says. Meanwhile the worker counts as searching, keeps its slot and
// stays in the arena: to take a slot and enter the arena again for the next op would take half a microsecond. Null: no
// work has come, or another thread needs the slot.
OpNode* ThreadedScheduler::spin(Worker& self) {
  op_memory_flush();
  epochs_.check();
  idle_workers_.begin_search();
  OpNode* op = nullptr;
  const std::uint64_t end = nanoseconds() + static_cast<std::uint64_t>(core_.options.spin * 1e9);
  for (int failed_looks = 0; !op && !stopping_ && !yield_slot(nullptr, self);) {
    if (has_work()) {
      if (!loops_.empty()) {
        // This thread no longer counts as searching, since a chunk of a loop may take long or wait.
        if (idle_workers_.end_search() && can_work()) wake_one();
        while (self.slot && join_loop(self)) {
        }
        idle_workers_.begin_search();
      }
      op = self.slot ? find(self) : nullptr;
      if (!op && ++failed_looks % kFailedLooks == 0) std::this_thread::yield();
    } else if (nanoseconds() >= end) {
      self.has_spun = true;
      break;
    }
    if (!op) let_time_pass(kSpinPauses);
  }
  if (idle_workers_.end_search() && can_work()) wake_one();
  return op;
}

// Runs op and then others until there is none; then releases the slot. op null: looks for a first one, see
// spin().
void ThreadedScheduler::run_from(OpNode* op, Worker& self) {
  self.ops = 0;
  self.last_tick = nanoseconds();
  self.has_spun = false;
  if (!op) op = spin(self);
  while (op && !is_after_wait_all(op, self)) {
    op = run(op, self);
    if (yield_slot(op, self)) break;
    while (!op && self.slot && join_loop(self)) {
    }
    if (!op && self.slot) op = find(self);
    if (!op && self.slot && may_spin(self)) op = spin(self);
  }
  release_slot(self);
  op_memory_flush();
  epochs_.check();
}

// Runs ops until none was found for a while. The thread counts as searching when this is called, and no
// longer when it returns.
void ThreadedScheduler::run_until_idle(Worker& self) {
  for (;;) {
    OpNode* op = search(self);
    if (!op && (!may_spin(self) || self.has_spun || !is_open() || !take_slot(self))) break;
    // Work may have come while this thread was the only one that searched; then no other was woken for it.
    if (idle_workers_.end_search() && can_work()) wake_one();
    auto run = [&] { run_from(op, self); };
    // The thread has a worker slot, and the arena has as many slots as there are worker slots.
    arena_.run([](void* call) { (*static_cast<decltype(run)*>(call))(); }, &run);
    idle_workers_.begin_search();
  }
  end_exclusive(self);
  if (idle_workers_.end_search() && can_work()) wake_one();
}

MonitorResult ThreadedScheduler::monitor_once(std::uint64_t& progress, int& idle) {
  const std::uint64_t now = epochs_.ended_on_slots();
  if (std::exchange(progress, now) != now) {
    idle = 0;
    return MonitorResult::again;
  }
  if (slots_.any_free() && has_work()) {
    // The exclusive worker runs an op that takes much longer than the ones before.
    Worker* stuck = exclusive_worker_.load(std::memory_order_seq_cst);
    if (stuck && exclusive_worker_.compare_exchange_strong(stuck, nullptr, std::memory_order_seq_cst)) {
      idle_workers_.end_search();
    }
    return MonitorResult::unpark;
  }
  if (!slots_.all_free() || exclusive_worker_.load(std::memory_order_relaxed) || ++idle < kIdleRounds)
    return MonitorResult::again;
  op_memory_trim();
  return MonitorResult::park;
}

void ThreadedScheduler::work() {
  Worker self{.pooled = true};
  ParkedThread& parked = idle_workers_.add_thread();
  const WorkerScope scope(this, &self);
  note_thread_end();
  idle_workers_.begin_search();
  while (!stopping_) {
    run_until_idle(self);
    epochs_.check();
    std::uint64_t progress = 0;
    int idle = 0;
    idle_workers_.park(
        parked, [this] { return can_work(); }, [&] { return monitor_once(progress, idle); });
    self.move_at = parked.woken_beside_waker() ? nanoseconds() + kBesideWaker : 0;
  }
}

}  // namespace heddle::detail
