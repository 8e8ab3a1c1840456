// The search for work: where a worker looks, in which order and for how long.
#include <algorithm>
#include <chrono>
#include <thread>

#include "op/op_memory.h"
#include "scheduler/threaded.h"

namespace heddle::detail {
namespace {

constexpr std::size_t kBatch = 16;  // ops taken at once from a queue that others use too
constexpr int kSearchLooks = 50;    // for work before a worker gives up,
constexpr int kMostPauses = 32;     // with up to so many pauses in between: 30 to 60 microseconds in all
constexpr int kMostApart = 64;
constexpr int kSpinPauses = 2;  // once that is over, for those who want to be fast rather than to save power
constexpr int kVain = 8;        // looks that found work but could not get it, before others may have the core
constexpr int kIdleRounds = 20;  // milliseconds without anything to do before the last monitor sleeps

}  // namespace

std::uint64_t nanoseconds() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

bool ThreadedCore::take_slot(Worker& self) {
  if (!self.slot) self.slot = slots_.take(self.last_slot);
  return self.slot != nullptr;
}

// The caller looks for work afterwards, or sees to it that somebody does.
void ThreadedCore::release_slot(Worker& self) {
  if (!self.slot) return;
  self.last_slot = std::exchange(self.slot, nullptr);
  slots_.release(*self.last_slot);
  pool_.slot_released();
}

bool ThreadedCore::has_work() const { return !submissions_.empty() || has_ready(); }

bool ThreadedCore::has_ready() const {
  if (!loops_.empty() || !ready_without_slot_.empty() || !priority_queue_.empty()) return true;
  for (const WorkerSlot& slot : slots_) {
    if (!slot.queue.empty()) return true;
  }
  return false;
}

bool ThreadedCore::can_work() const {
  if (stopping_) return true;
  return is_open() && has_work();
}

// There is room for one more worker.
bool ThreadedCore::is_open() const {
  return slots_.any_free() && !exclusive_worker_.load(std::memory_order_seq_cst) && !pool_.slot_wanted();
}

OpNode* ThreadedCore::take_from(ReadyQueue& queue, Worker& self) {
  ReadyList batch;
  queue.take(batch, kBatch);
  if (batch.empty()) return nullptr;
  OpNode* first = batch.pop_front();
  if (!batch.empty()) self.slot->queue.push_back(batch);
  return first;
}

// Enters submitted ops until some are ready. The others wait for ops that run or are queued.
OpNode* ThreadedCore::take_entered(Worker& self, bool until_ready) {
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

OpNode* ThreadedCore::find(Worker& self) { return or_higher_priority(find_next(self), self); }

// `op` is in hand, or null. If something more urgent is ready, or has been submitted, returns that and puts op back.
OpNode* ThreadedCore::or_higher_priority(OpNode* op, Worker& self) {
  if (!priority_queue_.before(op ? op->sequence : PriorityQueue::kNothing)) return op;
  ReadyList ready;
  // Ops of priority 0 are entered as they are needed: an urgent one behind a hundred thousand would wait for all of them.
  // Who has the lock may have lost its core: whatever is run meanwhile is less urgent.
  while (priority_queue_.any_announced() && enter_batch(ready, true) > 0) {
  }
  if (!ready.empty()) {
    self.slot->queue.push_back(ready);
    wake_one();
  }
  // What was entered just now, here or by another thread, may come before it.
  if (!op) op = find_next(self);
  OpNode* urgent = priority_queue_.take_before(op ? op->sequence : PriorityQueue::kNothing);
  if (!op || !urgent) return urgent ? urgent : op;
  ready.push_back(op);
  schedule(ready);
  return urgent;
}

OpNode* ThreadedCore::find_next(Worker& self) {
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

// Never with an op in hand: a chunk of the loop might wait for it.
bool ThreadedCore::join_loop(Worker& self) {
  std::shared_ptr<ParallelLoop> loop = loops_.enter();
  if (!loop) return false;
  const bool later = loop->op->epoch != self.epoch;
  if (later) check_balance();  // as in run()
  if (later && self.stop) {
    self.enough = true;
    ParallelLoops::leave(*loop);
    return false;
  }
  if (!loop->exhausted()) {
    const InsideOp inside(this, loop->op, self.slot->index);
    loop->work();
  }
  loops_.close(loop.get());
  ParallelLoops::leave(*loop);
  return true;
}

// Between two looks for work. On one core no other thread pushes or completes ops while this one looks, so it yields to them.
// It does not park: it would have to be woken for the next op.
void ThreadedCore::let_time_pass(int pauses) const {
  if (one_core_) return std::this_thread::yield();
  for (int i = 0; i < pauses; ++i) cpu_relax();
}

// Looks for work for a while; returns an op with a slot held, or null without one. The calling thread is a searcher
// before and after.
OpNode* ThreadedCore::search(Worker& self) {
  int vain = 0;
  int apart = 1, since = 1;  // looks at submissions, in pauses
  const bool may_spin = self.pooled && options.spin > 0;
  const std::uint64_t spin_end =
      may_spin ? nanoseconds() + static_cast<std::uint64_t>(options.spin * 1e9) : 0;
  for (int looks = 0; !stopping_; looks = std::min(looks + 1, kSearchLooks)) {
    const bool spins = looks == kSearchLooks;
    if (spins && (!may_spin || nanoseconds() >= spin_end)) break;
    if (self.enough || (self.stop && self.stop->load(std::memory_order_relaxed) != self.stop_unless)) break;
    const bool look_at_all = since >= apart || spins || is_exclusive(self) || one_core_;
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
      // What there is cannot be had: a thread that pushes or enters ops was stopped halfway, perhaps by this one.
      if (++vain % kVain == 0) std::this_thread::yield();
    } else if (!is_exclusive(self) &&
               (exclusive_worker_.load(std::memory_order_relaxed) || !slots_.any_free())) {
      break;
    }
    // What workers leave may be gone on with at once. But to look at the submissions takes a cache line from whoever
    // pushes, and perhaps an op that its pusher is about to wait for, and to run: not too often. On one core neither is at stake.
    if (std::exchange(since, look_at_all ? 0 : since) >= apart) apart = std::min(2 * apart, kMostApart);
    const int pauses = spins ? kSpinPauses : std::min(looks + 1, kMostPauses);
    let_time_pass(pauses);
    since += pauses;
  }
  return nullptr;
}

void ThreadedCore::become_exclusive(Worker& self) {
  Worker* nobody = nullptr;
  if (!exclusive_worker_.compare_exchange_strong(nobody, &self, std::memory_order_seq_cst)) return;
  idle_workers_.begin_search();
  idle_workers_.need_monitor();
}

void ThreadedCore::end_exclusive(Worker& self) {
  Worker* me = &self;
  if (!is_exclusive(self)) return;
  // If it fails, somebody thought that we hang, and has ended the search for us.
  if (!exclusive_worker_.compare_exchange_strong(me, nullptr, std::memory_order_seq_cst)) return;
  idle_workers_.end_search();
  if (can_work()) wake_one();
}

// Between two ops: gives the slot up to a thread in the middle of an op, or because another worker's ops are so short
// that it does better alone. `op` is in hand, or null.
bool ThreadedCore::yield_slot(OpNode* op, Worker& self) {
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

// A thread in wait_all leaves to others what was pushed after its call: it would keep the thread longer than it has to
// wait, for ever if it does not end before that thread goes on. Puts op back then.
bool ThreadedCore::is_after_wait_all(OpNode* op, Worker& self) {
  if (!self.stop || op->epoch == self.epoch) return false;
  ReadyList in_hand;
  in_hand.push_back(op);
  self.slot->queue.push_front(in_hand);
  return self.enough = true;
}

// From a first op until there is no other; then the slot is free again.
void ThreadedCore::run_from(OpNode* op, Worker& self) {
  self.ops = 0;
  self.ticked = nanoseconds();
  while (op && !is_after_wait_all(op, self)) {
    op = run(op, self);
    if (yield_slot(op, self)) break;
    while (!op && self.slot && join_loop(self)) {
    }
    if (!op && self.slot) op = find(self);
  }
  release_slot(self);
  op_memory_flush();
  check_balance();
}

// A searcher at first, none in the end.
void ThreadedCore::run_until_idle(Worker& self) {
  for (;;) {
    OpNode* op = search(self);
    if (!op) break;
    // Work may have come while this thread was the only searcher, and nobody was woken for it.
    if (idle_workers_.end_search() && can_work()) wake_one();
    auto run = [&] { run_from(op, self); };
    // Only with a slot: there are as many places in the arena.
    arena_.run([](void* call) { (*static_cast<decltype(run)*>(call))(); }, &run);
    idle_workers_.begin_search();
  }
  end_exclusive(self);
  if (idle_workers_.end_search() && can_work()) wake_one();
}

// Ops that have ended on threads with a slot.
std::uint64_t ThreadedCore::ended_here() const {
  std::uint64_t count = 0;
  for (const WorkerSlot& slot : slots_) {
    for (const auto& ended : slot.ended) count += ended.load(std::memory_order_relaxed);
  }
  return count;
}

MonitorResult ThreadedCore::monitor_once(std::uint64_t& progress, int& idle) {
  const std::uint64_t now = ended_here();
  if (std::exchange(progress, now) != now) {
    idle = 0;
    return MonitorResult::again;
  }
  if (slots_.any_free() && has_work()) {
    // Whoever was to find it hangs in an op that is longer than the last ones were.
    Worker* hangs = exclusive_worker_.load(std::memory_order_seq_cst);
    if (hangs && exclusive_worker_.compare_exchange_strong(hangs, nullptr, std::memory_order_seq_cst)) {
      idle_workers_.end_search();
    }
    return MonitorResult::unpark;
  }
  if (!slots_.all_free() || exclusive_worker_.load(std::memory_order_relaxed) || ++idle < kIdleRounds)
    return MonitorResult::again;
  op_memory_trim();
  return MonitorResult::park;
}

void ThreadedCore::work() {
  Worker self{.pooled = true};
  ParkedThread& sleeper = idle_workers_.place();
  const WorkerScope scope(this, &self);
  note_thread_end();
  idle_workers_.begin_search();
  while (!stopping_) {
    run_until_idle(self);
    check_balance();
    std::uint64_t progress = 0;
    int idle = 0;
    idle_workers_.sleep(
        sleeper, [this] { return can_work(); }, [&] { return monitor_once(progress, idle); });
  }
}

}  // namespace heddle::detail
