// Threads that wait: wait() first enters submitted ops and runs those that mutate its var, then blocks; wait_until() only
// blocks.
#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "scheduler/threaded.h"

namespace heddle::detail {
namespace {

constexpr int kWaitSpins = 100;  // looks at a WaitState before the waiting thread blocks
constexpr int kDeepest = 16;     // ops on the stack of one thread that wait while it runs another one
// A search for a deadlock takes about 100 ns a step. The first steps take less time than blocking the thread would. The
// rest is done in parts while the thread is blocked; each part follows a pause ten times as long.
constexpr std::size_t kFirstSteps = 64, kMostSteps = 8192;
constexpr auto kPauseOfStep = std::chrono::microseconds(1);

bool is_needed(const OpNode& op, const VarState& var) {
  for (std::uint32_t i = 0; i < op.access_count; ++i) {
    if (op.accesses()[i].var == &var) return op.accesses()[i].mutates;
  }
  return false;
}

// Blocks for that time, or until the wait is over. True if it is.
bool is_over_within(WaitState& state, std::chrono::microseconds time) {
  // seq_cst: see announce().
  if (!state.timed_wait.load(std::memory_order_relaxed))
    state.timed_wait.store(new TimedWait, std::memory_order_seq_cst);
  TimedWait& timed_wait = *state.timed_wait.load(std::memory_order_relaxed);
  std::unique_lock lock(timed_wait.mutex);
  return timed_wait.over.wait_for(lock, time,
                                  [&] { return state.done.load(std::memory_order_seq_cst) != 0; });
}

// Blocks until the wait is over or the deadline has passed. True if it is over.
bool block_until(WaitState& state, Deadline deadline) {
  using std::chrono::microseconds;
  constexpr microseconds kLongestPart =
      std::chrono::hours(1);  // a condition variable adds it to its own clock
  for (auto now = std::chrono::steady_clock::now(); now < deadline; now = std::chrono::steady_clock::now()) {
    const auto left = std::chrono::ceil<microseconds>(deadline - now);
    if (is_over_within(state, std::min(left, kLongestPart))) return true;
  }
  return state.done.load(std::memory_order_acquire) != 0;
}

[[noreturn]] void throw_would_deadlock(const OpNode& op) {
  throw WouldDeadlock("op '" + std::string(op.name) +
                      "' waits for a var that can only be ready after that op has ended");
}

}  // namespace

void ThreadedScheduler::begin_blocking() {
  Worker* self = worker_context.scheduler == this ? worker_context.worker : nullptr;
  if (!self || self->blocked) return;
  end_exclusive(*self);
  if (self->pooled) pool_.thread_blocks();
  self->blocked = true;
  if (!self->slot) return;
  ++this_thread_blocked;
  release_slot(*self);
  if (can_work()) wake_one();
}

void ThreadedScheduler::end_blocking() noexcept {
  Worker* self = worker_context.scheduler == this ? worker_context.worker : nullptr;
  if (!self || !std::exchange(self->blocked, false)) return;
  if (self->pooled) pool_.thread_resumes();
  self->slot = pool_.await_slot([this] { return ended_on_slots(); });
  if (can_work()) wake_one();
}

// Runs those of `ready` that mutate var: the wait cannot end before them. Any other op might take longer than the wait, or
// need a lock that the waiting thread holds.
void ThreadedScheduler::run_needed(ReadyList& ready, const VarState& var, Worker& self) {
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

bool ThreadedScheduler::runs_anything() const {
  const Worker* worker = this_worker();
  return worker && worker->depth == 0;
}

void ThreadedScheduler::help(const WaitState& state, VarState& var) {
  Worker helper;
  Worker* self = this_worker();
  if (self && self->depth >= kDeepest) return;
  // Not inside an op of another engine: the slot of that engine would have to be released first.
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
    if (self->ops != ops) check_quiescence();  // there may be no worker that does
    --self->depth;
  };
  if (self != &helper) return run();
  arena_.run([](void* call) { (*static_cast<decltype(run)*>(call))(); }, &run);
  end_exclusive(helper);
  release_slot(helper);
  if (can_work()) wake_one();
}

// var: null for all.
void ThreadedScheduler::ask_progress_sources(VarState* var, const std::atomic<std::uint32_t>& over) {
  if (!core_.progress_sources.any() || over.load(std::memory_order_acquire)) return;
  // Inside an op, of any engine, its slot would be held while the progress source blocks.
  if (this_thread_state.core) return;
  if (has_work()) wake_one();  // ready ops need not wait for the progress source
  if (var) retain(var);
  core_.progress_sources.progress_until(Var::adopt(var), over);
}

void ThreadedScheduler::wait(OpNode* wait_op) {
  const std::shared_ptr<WaitState> state = wait_op->extra->wait;
  OpNode* const current = core_.current_op();
  state->resumes = current;
  VarState& var = *wait_op->accesses()[0].var;
  submissions_.push(wait_op);
  if (stopping_) enter_submitted();  // the thread pool has ended
  help(*state, var);
  ask_progress_sources(&var, state->done);
  if (!state->done.load(std::memory_order_acquire)) wake_one();
  for (int spins = 0; spins < kWaitSpins; ++spins) {
    if (state->done.load(std::memory_order_acquire)) return;
    cpu_relax();
  }
  if (current) return wait_inside(*state, *current);
  if (!state->entered.load(std::memory_order_acquire)) {
    enter_some();  // all workers may be busy for long, with ops that this wait does not need
  }
  begin_blocking_everywhere();
  state->done.wait(0, std::memory_order_acquire);
  end_blocking_everywhere();
}

// Without `help`: what this thread would run might last longer.
bool ThreadedScheduler::wait_until(OpNode* wait_op, Deadline deadline) {
  const std::shared_ptr<WaitState> state = wait_op->extra->wait;
  OpNode* const current = core_.current_op();
  state->resumes = current;
  submissions_.push(wait_op);
  if (stopping_) enter_submitted();  // as in wait()
  wake_one();
  if (current) {
    wait_inside(*state, *current, deadline);
  } else {
    enter_some();  // as in wait()
    const BlockingEverywhere blocking;
    block_until(*state, deadline);
  }
  return state->done.load(std::memory_order_acquire) != 0;
}

void ThreadedScheduler::wait_inside(WaitState& state, OpNode& current, Deadline deadline) {
  while (!state.entered.load(std::memory_order_acquire)) {
    ReadyList ready;
    enter_batch(ready);
    schedule(ready);
  }
  try {
    WaitSearch search(state, current, core_.waits);
    std::optional<bool> deadlock = search.look(kFirstSteps, WaitSearch::IfFound::give_up);
    if (deadlock == true) throw_would_deadlock(current);
    const BlockingEverywhere blocking;
    if (!deadlock && find_deadlock(search, state, deadline)) throw_would_deadlock(current);
    if (deadline == kNever) return state.done.wait(0, std::memory_order_acquire);
    if (block_until(state, deadline)) return;
    std::lock_guard guard(core_.waits.mutex);
    core_.waits.give_up(state);
  } catch (...) {
    std::lock_guard guard(core_.waits.mutex);
    core_.waits.give_up(state);
    throw;
  }
}

// The rest of a search that its first steps did not decide. False also if the wait is over meanwhile, or its deadline.
bool ThreadedScheduler::find_deadlock(WaitSearch& search, WaitState& state, Deadline deadline) {
  for (std::size_t steps = kFirstSteps;; steps = std::min(2 * steps, kMostSteps)) {
    if (is_over_within(state, static_cast<std::int64_t>(steps) * kPauseOfStep)) return false;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    if (const std::optional<bool> deadlock = search.look(steps, WaitSearch::IfFound::give_up))
      return *deadlock;
  }
}

// No op of the epoch is in flight. The number of ended ops is read first. It never exceeds the number of pushed ones, so if
// the earlier sum equals the later one, both were equal at a moment in between.
bool ThreadedScheduler::counts_match(std::uint8_t epoch) {
  std::uint64_t ended = ended_without_slot_[epoch].load(std::memory_order_acquire);
  for (const WorkerSlot& slot : slots_) ended += slot.ended[epoch].load(std::memory_order_acquire);
  std::uint64_t pushed = children_without_slot_[epoch].load(std::memory_order_acquire);
  for (const WorkerSlot& slot : slots_) pushed += slot.children[epoch].load(std::memory_order_acquire);
  std::lock_guard guard(submissions_);
  return pushed + entered_[epoch] == ended;
}

// The epoch is over, since its mark was entered, none of its ops is in flight, and no var that was dropped in it holds its
// error any longer.
bool ThreadedScheduler::quiescent(std::uint8_t epoch) {
  {
    std::lock_guard guard(submissions_);
    if (epoch_ == epoch) return false;
  }
  return dropping_[epoch].load(std::memory_order_acquire) == 0 && counts_match(epoch);
}

void ThreadedScheduler::check_quiescence() {
  // Read-modify-write, here and in wait_all: either this thread sees the waiting one, or that one sees the new counts.
  if (quiescence_waiters_.fetch_add(0, std::memory_order_seq_cst) == 0) return;
  if (!quiescent(awaited_.load(std::memory_order_seq_cst))) return;
  quiescence_signal_.fetch_add(1, std::memory_order_seq_cst);
  quiescence_signal_.notify_all();
  all_over_.store(1, std::memory_order_seq_cst);
  all_over_.notify_all();
}

void ThreadedScheduler::help_all(std::uint32_t signal, std::uint8_t epoch) {
  Worker self{.epoch = epoch, .stop_signal = &quiescence_signal_, .stop_signal_value = signal};
  const WorkerScope scope(this, &self);
  note_thread_end();
  idle_workers_.begin_search();
  run_until_idle(self);
}

void ThreadedScheduler::wait_all() {
  if (core_.current_op()) throw WouldDeadlock("wait_all inside an op would wait for that op itself");
  begin_blocking_everywhere();
  {
    std::lock_guard one(wait_all_mutex_);
    std::uint8_t epoch;
    {
      std::lock_guard guard(submissions_);
      epoch = epoch_;  // only the holder of wait_all_mutex_ ends it
    }
    awaited_.store(epoch, std::memory_order_seq_cst);
    QueueNode mark(OpKind::mark);  // quiescent(epoch) implies that it was popped
    submissions_.push(&mark);
    wake_one();
    quiescence_waiters_.fetch_add(1, std::memory_order_seq_cst);
    for (;;) {
      const std::uint32_t signal = quiescence_signal_.load(std::memory_order_seq_cst);
      all_over_.store(0, std::memory_order_seq_cst);
      if (stopping_) enter_submitted();  // as in wait()
      if (quiescent(epoch)) break;
      help_all(signal, epoch);
      if (quiescent(epoch)) break;
      ask_progress_sources(nullptr, all_over_);
      quiescence_signal_.wait(signal, std::memory_order_seq_cst);
    }
    quiescence_waiters_.fetch_sub(1, std::memory_order_seq_cst);
  }
  end_blocking_everywhere();
}

void ThreadedScheduler::stop() noexcept {
  // Threads that complete ops may push more ops before they complete one.
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
