// Threads that wait: they run what they wait for, if it is to be had, before they sleep.
#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "scheduler/threaded.h"

namespace heddle::detail {
namespace {

constexpr int kWaitSpins = 100;  // looks at a WaitState before the waiting thread goes to sleep
constexpr int kDeepest = 16;     // ops waiting on top of each other on one thread
// A search for a deadlock takes some 100 ns a step. It begins with so many: they take less than to put a thread to sleep. It
// goes on while the thread is blocked, a part at a time, each of which follows a pause ten times as long.
constexpr std::size_t kFirstSteps = 64, kMostSteps = 8192;
constexpr auto kPauseOfStep = std::chrono::microseconds(1);

bool is_needed(const OpNode& op, const VarState& var) {
  for (std::uint32_t i = 0; i < op.access_count; ++i) {
    if (op.accesses()[i].var == &var) return op.accesses()[i].mutates;
  }
  return false;
}

// True if the wait was over by then.
bool is_over_within(WaitState& state, std::chrono::microseconds time) {
  // seq_cst: see announce().
  if (!state.alarm.load(std::memory_order_relaxed)) state.alarm.store(new Alarm, std::memory_order_seq_cst);
  Alarm& alarm = *state.alarm.load(std::memory_order_relaxed);
  std::unique_lock lock(alarm.mutex);
  return alarm.rung.wait_for(lock, time, [&] { return state.done.load(std::memory_order_seq_cst) != 0; });
}

[[noreturn]] void throw_would_deadlock(const OpNode& op) {
  throw WouldDeadlock("op '" + std::string(op.name) +
                      "' waits for a var that can only be ready after that op has ended");
}

}  // namespace

void ThreadedCore::begin_blocking() {
  Worker* self = worker_context.core == this ? worker_context.worker : nullptr;
  if (!self || self->blocked) return;
  end_exclusive(*self);
  if (self->pooled) pool_.thread_blocks();
  self->blocked = true;
  if (!self->slot) return;
  ++this_thread_blocked;
  release_slot(*self);
  if (can_work()) wake_one();
}

void ThreadedCore::end_blocking() noexcept {
  Worker* self = worker_context.core == this ? worker_context.worker : nullptr;
  if (!self || !std::exchange(self->blocked, false)) return;
  if (self->pooled) pool_.thread_resumes();
  self->slot = pool_.await_slot([this] { return ended_here(); });
  if (can_work()) wake_one();
}

// Runs those of `ready` that mutate var: the wait cannot end before. Anything else might keep the waiting thread longer
// than it has to wait, or need a lock that it holds.
void ThreadedCore::run_needed(ReadyList& ready, const VarState& var, Worker& self) {
  ReadyList needed, others;
  while (!ready.empty()) {
    OpNode* op = ready.pop_front();
    (is_needed(*op, var) ? needed : others).push_back(op);
  }
  schedule(others);
  while (!needed.empty()) {
    OpNode* op = needed.pop_front();
    while (op && self.slot) {
      op = run(op, self);
      if (!op || is_needed(*op, var)) continue;
      others.push_back(std::exchange(op, nullptr));
      schedule(others);
    }
    if (op) others.push_back(op);
  }
  schedule(others);
}

bool ThreadedCore::runs_anything() const {
  const Worker* worker = this_worker();
  return worker && worker->depth == 0;
}

void ThreadedCore::help(const WaitState& state, VarState& var) {
  Worker helper;
  Worker* self = this_worker();
  if (self && self->depth >= kDeepest) return;
  // Inside another engine's op the slot there would have to be given up first.
  if (!self && (this_thread_state.core || pool_.slot_wanted() || !take_slot(helper))) return;
  if (!self) {
    self = &helper;
    note_thread_end();
  }
  const WorkerScope scope(this, self);
  auto run = [&] {
    ++self->depth;
    const std::uint32_t ops = self->ops;
    while (!state.done.load(std::memory_order_acquire) && self->slot) {
      ReadyList ready;
      if (enter_batch(ready) <= 0) break;
      run_needed(ready, var, *self);
    }
    if (self->ops != ops) check_balance();  // nobody else may come along who does
    --self->depth;
  };
  if (self != &helper) return run();
  arena_.run([](void* call) { (*static_cast<decltype(run)*>(call))(); }, &run);
  end_exclusive(helper);
  release_slot(helper);
  if (can_work()) wake_one();
}

void ThreadedCore::wait(OpNode* wait_op) {
  const std::shared_ptr<WaitState> state = wait_op->extra->wait;
  OpNode* const current = current_op();
  state->resumes = current;
  VarState& var = *wait_op->accesses()[0].var;
  submissions_.push(wait_op);
  if (stopping_) enter_submitted();  // there is no thread pool that would
  help(*state, var);
  // Inside an op, of whatever engine, it would keep a slot from others while it blocks.
  if (progress_sources.any() && !this_thread_state.core && !state->done.load(std::memory_order_acquire)) {
    if (has_work()) wake_one();  // it is not to wait for what is done here
    progress_sources.progress_until(var, state->done);
  }
  if (!state->done.load(std::memory_order_acquire)) wake_one();
  for (int spins = 0; spins < kWaitSpins; ++spins) {
    if (state->done.load(std::memory_order_acquire)) return;
    cpu_relax();
  }
  if (current) return wait_inside(*state, *current);
  if (!state->entered.load(std::memory_order_acquire)) {
    enter_some();  // all workers may be busy for long, with what this does not wait for
  }
  begin_blocking_everywhere();
  state->done.wait(0, std::memory_order_acquire);
  end_blocking_everywhere();
}

void ThreadedCore::wait_inside(WaitState& state, OpNode& current) {
  while (!state.entered.load(std::memory_order_acquire)) {
    ReadyList ready;
    enter_batch(ready);
    schedule(ready);
  }
  try {
    WaitSearch search(state, current, waits);
    std::optional<bool> deadlock = search.look(kFirstSteps, WaitSearch::IfFound::give_up);
    if (deadlock == true) throw_would_deadlock(current);
    const BlockingEverywhere blocking;
    if (!deadlock && find_deadlock(search, state)) throw_would_deadlock(current);
    state.done.wait(0, std::memory_order_acquire);
  } catch (...) {
    std::lock_guard guard(waits.mutex);
    waits.give_up(state);
    throw;
  }
}

// The rest of a search that its first steps did not decide. False too if the wait is over.
bool ThreadedCore::find_deadlock(WaitSearch& search, WaitState& state) {
  for (std::size_t steps = kFirstSteps;; steps = std::min(2 * steps, kMostSteps)) {
    if (is_over_within(state, static_cast<std::int64_t>(steps) * kPauseOfStep)) return false;
    if (const std::optional<bool> deadlock = search.look(steps, WaitSearch::IfFound::give_up))
      return *deadlock;
  }
}

// No op of the epoch is in flight. The ended ones are read first: they never exceed the pushed ones, so if the earlier sum
// equals the later one, both were equal in between.
bool ThreadedCore::counts_match(std::uint8_t epoch) {
  std::uint64_t ended = ended_without_slot_[epoch].load(std::memory_order_acquire);
  for (const WorkerSlot& slot : slots_) ended += slot.ended[epoch].load(std::memory_order_acquire);
  std::uint64_t pushed = children_without_slot_[epoch].load(std::memory_order_acquire);
  for (const WorkerSlot& slot : slots_) pushed += slot.children[epoch].load(std::memory_order_acquire);
  std::lock_guard guard(submissions_);
  return pushed + entered_[epoch] == ended;
}

// The epoch is over, its mark has been reached, and none of its ops is in flight.
bool ThreadedCore::balanced(std::uint8_t epoch) {
  {
    std::lock_guard guard(submissions_);
    if (epoch_ == epoch) return false;
  }
  return counts_match(epoch);
}

void ThreadedCore::check_balance() {
  // Read-modify-write, here and in wait_all: either we see the waiter, or the waiter sees what we have counted.
  if (balance_waiters_.fetch_add(0, std::memory_order_seq_cst) == 0) return;
  if (!balanced(awaited_.load(std::memory_order_seq_cst))) return;
  balance_signal_.fetch_add(1, std::memory_order_seq_cst);
  balance_signal_.notify_all();
}

void ThreadedCore::help_all(std::uint32_t signal, std::uint8_t epoch) {
  Worker self{.epoch = epoch, .stop = &balance_signal_, .stop_unless = signal};
  const WorkerScope scope(this, &self);
  note_thread_end();
  idle_workers_.begin_search();
  run_until_idle(self);
}

void ThreadedCore::wait_all() {
  if (current_op()) throw WouldDeadlock("wait_all inside an op would wait for that op itself");
  begin_blocking_everywhere();
  {
    std::lock_guard one(wait_all_mutex_);
    std::uint8_t epoch;
    {
      std::lock_guard guard(submissions_);
      epoch = epoch_;  // nobody else ends it
    }
    awaited_.store(epoch, std::memory_order_seq_cst);
    QueueNode mark(OpKind::mark);  // popped when balanced(epoch), and not touched any more
    submissions_.push(&mark);
    wake_one();
    balance_waiters_.fetch_add(1, std::memory_order_seq_cst);
    for (;;) {
      const std::uint32_t signal = balance_signal_.load(std::memory_order_seq_cst);
      if (stopping_) enter_submitted();  // as in wait()
      if (balanced(epoch)) break;
      help_all(signal, epoch);
      if (balanced(epoch)) break;
      balance_signal_.wait(signal, std::memory_order_seq_cst);
    }
    balance_waiters_.fetch_sub(1, std::memory_order_seq_cst);
  }
  end_blocking_everywhere();
}

void ThreadedCore::stop() noexcept {
  // Threads that complete ops may have pushed more before they did.
  while (!submissions_.empty() || !counts_match(0) || !counts_match(1)) wait_all();
  stopping_ = true;
  idle_workers_.close();
  pool_.join();
  while (!submissions_.empty()) {
    ReadyList none;
    enter_batch(none);
  }
}

}  // namespace heddle::detail
