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

constexpr int kWaitSpins = 100;  // number of looks at a WaitState before the waiting thread blocks
constexpr int kSpinsBetweenLooks = 25;
constexpr int kMostRounds = 64;  // number of batches that a wait enters before it queues a wait op
// A thread that waits inside an op runs other ops on its stack: kDeepest waits deep, or deeper while they
// take less than kMostStack bytes of it.
constexpr int kDeepest = 16;
constexpr std::ptrdiff_t kMostStack = std::ptrdiff_t{256} << 10;
// A search for a deadlock takes about 100 ns per step. The first steps take less time than blocking the thread would.
// The rest is done in parts while the thread is blocked; each part follows a pause ten times as long.
constexpr std::size_t kFirstSteps = 64, kMostSteps = 8192;
constexpr auto kPauseOfStep = std::chrono::microseconds(1);

// Blocks for `time`, or until the wait is over. True if it is over.
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
  // The time of one wait is bounded, since a condition variable adds it to the time now, which could
  // overflow.
  constexpr microseconds kLongestPart = std::chrono::hours(1);
  for (auto now = std::chrono::steady_clock::now(); now < deadline; now = std::chrono::steady_clock::now()) {
    const auto left = std::chrono::ceil<microseconds>(deadline - now);
    if (is_over_within(state, std::min(left, kLongestPart))) return true;
  }
  return state.done.load(std::memory_order_acquire) != 0;
}

// The number of waits in which a thread outside ops runs no ops after it ran a long one. The number doubles
// with each further long op, until ops are short again.
struct HelpPause {
  static constexpr int kMost = 32;
  int left = 0, next = 1;

  bool skips() { return left > 0 && left-- > 0; }
  void ran_long() { left = std::exchange(next, std::min(2 * next, kMost)); }
  void ran_short() { next = 1; }
};
constinit thread_local HelpPause help_pause;

// Whether the thread may run ops inside one more wait, see kDeepest. The stack grows towards lower addresses.
bool may_go_deeper(Worker& self) {
  const auto here = reinterpret_cast<std::intptr_t>(__builtin_frame_address(0));
  if (self.depth == 0) self.stack_base = here;
  return self.depth < kDeepest || self.stack_base - here < kMostStack;
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
  self->slot = pool_.await_slot([this] { return epochs_.ended_on_slots(); });
  if (can_work()) wake_one();
}

bool ThreadedScheduler::runs_anything() const {
  const Worker* worker = this_worker();
  return worker && worker->depth == 0;
}

// Whether all ops pushed so far that mutate var are done, and none of them was on a stream.
bool ThreadedScheduler::at_rest(VarState& var, FailurePtr& poison) {
  if (!all_entered()) return false;
  std::lock_guard guard(var.lock);
  if (var.writer || var.head || var.fences.load(std::memory_order_acquire)) return false;
  poison = var.poison;
  return true;
}

// Takes a needed op of the queue: the first one, or one close behind it that mutates the var.
OpNode* ThreadedScheduler::take_needed(ReadyQueue& queue, NeedSearch& needed) {
  constexpr int kNear = 8;
  if (OpNode* op =
          queue.take_first(kNear, [&](const OpNode& candidate) { return needed.mutates(candidate); }))
    return op;
  OpNode* op = queue.take_one();
  if (!op || needed.needs(*op)) return op;
  ReadyList back;
  back.push_back(op);
  queue.push_front(back);
  wake_one();  // a worker may have found the queue empty meanwhile
  return nullptr;
}

OpNode* ThreadedScheduler::find_needed(NeedSearch& needed, Worker& self) {
  if (OpNode* op = take_needed(self.slot->queue, needed)) return op;
  if (OpNode* op = take_needed(ready_without_slot_, needed)) return op;
  const int own = self.slot->index;
  for (int i = 1; i < slots_.size(); ++i) {
    if (OpNode* op = take_needed(slots_.begin()[(own + i) % slots_.size()].queue, needed)) return op;
  }
  return nullptr;
}

// Runs op, and then needed ops that it makes ready. A thread that waits outside ops stops after a long op:
// otherwise it would compete with the workers for cores whose caches have the workers' data, which took 6 %
// of a training step on two cores.
void ThreadedScheduler::run_needed(OpNode* op, NeedSearch& needed, Worker& self) {
  if (self.watch) self.watch->start();
  while (op && self.slot) {
    op = run(op, self);
    if (self.watch && self.watch->took_long()) {
      needed.leave_to_others();
      help_pause.ran_long();
      break;
    }
    if (op && needed.needs(*op)) continue;
    break;
  }
  if (!op) return;
  ReadyList in_hand;
  in_hand.push_back(op);
  schedule(in_hand);
}

// Runs only ops that the wait needs, since others might take longer than the wait or need a lock that the
// waiting thread holds. False if nothing is left that this thread could run.
bool ThreadedScheduler::help_once(NeedSearch& needed, Worker& self) {
  ReadyList ready;
  int entered = 0;
  if (!needed.limited()) {  // once it is limited, all ops pushed before the wait are entered
    entered = enter_batch(ready);
    if (entered < kEnterBatch && all_entered()) needed.limit(sequence_.load(std::memory_order_relaxed));
  }
  if (!ready.empty()) self.slot->queue.push_front(ready);
  OpNode* op = find_needed(needed, self);
  if (!self.slot->queue.empty()) wake_one();  // the rest is for other workers, or for the next round here
  if (op) run_needed(op, needed, self);
  return op || entered > 0;
}

template <class Over> void ThreadedScheduler::help(NeedSearch& needed, Over over) {
  Worker helper;
  Worker* self = this_worker();
  if (self && !may_go_deeper(*self)) return;
  // A thread inside an op of another engine does not help, since it would have to release its slot of that
  // engine first.
  if (!self &&
      (this_thread_state.core || needed.left_to_others() || pool_.slot_wanted() || !take_slot(helper)))
    return;
  OpWatch watch;
  if (!self) {
    self = &helper;
    helper.watch = &watch;
    note_thread_end();
  }
  const WorkerScope scope(this, self);
  auto run = [&] {
    ++self->depth;
    const std::uint32_t ops = self->ops;
    while (!over() && self->slot && !needed.left_to_others() && help_once(needed, *self)) {
    }
    if (self->ops != ops) epochs_.check();  // perhaps no worker runs that would make this check
    --self->depth;
  };
  if (self != &helper) {
    OpWatch* const outer = std::exchange(self->watch, nullptr);  // no watch, since this wait is inside an op
    run();
    self->watch = outer;
    if (has_work()) wake_one();
    return;
  }
  arena_.run([](void* call) { (*static_cast<decltype(run)*>(call))(); }, &run);
  if (helper.ops > 0 && !needed.left_to_others())
    watch.rest_took_long() ? help_pause.ran_long() : help_pause.ran_short();
  end_exclusive(helper);
  release_slot(helper);
  if (can_work()) wake_one();
}

ThreadedScheduler::Help ThreadedScheduler::help_until_over(VarState& var, FailurePtr& poison) {
  if (at_rest(var, poison)) return Help::over;
  if (stopping_ || var.fences.load(std::memory_order_acquire)) return Help::not_over;
  if (!this_thread_state.core && help_pause.skips()) return Help::long_op;
  NeedSearch needed(var);
  int rounds = 0;
  // The rounds are bounded, since other threads may push without end.
  help(needed, [&] { return !needed.limited() && ++rounds > kMostRounds; });
  if (at_rest(var, poison)) return Help::over;
  return needed.left_to_others() ? Help::long_op : Help::not_over;
}

// Lets progress sources do the work that the calling thread waits for. `var` null: it waits for all ops.
void ThreadedScheduler::ask_progress_sources(VarState* var, const std::atomic<std::uint32_t>& over) {
  if (!core_.progress_sources.any() || over.load(std::memory_order_acquire)) return;
  // Sources are not asked inside an op of any engine, since its slot would be held while the source blocks.
  if (this_thread_state.core) return;
  if (has_work()) wake_one();  // another thread runs ready ops, which need not wait for the source
  if (var) retain(var);
  core_.progress_sources.progress_until(Var::adopt(var), over);
}

void ThreadedScheduler::wait(OpNode* wait_op) {
  const std::shared_ptr<WaitState> state = wait_op->extra->wait;
  OpNode* const current = core_.note_waiter(*state);
  VarState& var = *wait_op->accesses()[0].var;
  submissions_.push(wait_op);
  if (stopping_) enter_submitted();  // the thread pool has ended, so this thread enters the ops
  const auto over = [&] { return state->done.load(std::memory_order_acquire) != 0; };
  NeedSearch needed(var);
  if (state->leave_to_others) needed.leave_to_others();
  help(needed, over);
  // Ops that `current` pushed may not be entered yet, if another thread was entering submissions.
  if (current && !over() && !needed.limited()) {
    enter_up_to(*state);
    help(needed, over);
  }
  ask_progress_sources(&var, state->done);
  if (!over()) wake_one();
  for (int spins = 1; spins <= kWaitSpins; ++spins) {
    if (over()) return;
    cpu_relax();
    if (spins % kSpinsBetweenLooks == 0 && has_work()) help(needed, over);
  }
  if (current) return wait_inside(*state, *current);
  if (!state->entered.load(std::memory_order_acquire)) {
    enter_some();  // all workers may be busy for long with ops that this wait does not need
  }
  begin_blocking_everywhere();
  state->done.wait(0, std::memory_order_acquire);
  end_blocking_everywhere();
}

// Does not call help(): an op that this thread runs might last beyond the deadline.
bool ThreadedScheduler::wait_until(OpNode* wait_op, Deadline deadline) {
  const std::shared_ptr<WaitState> state = wait_op->extra->wait;
  OpNode* const current = core_.note_waiter(*state);
  submissions_.push(wait_op);
  if (stopping_) enter_submitted();  // the thread pool has ended, so this thread enters the ops
  wake_one();
  if (current) {
    wait_inside(*state, *current, deadline);
  } else {
    enter_some();  // all workers may be busy for long
    const BlockingEverywhere blocking;
    block_until(*state, deadline);
  }
  return state->done.load(std::memory_order_acquire) != 0;
}

void ThreadedScheduler::enter_up_to(const WaitState& state) {
  while (!state.entered.load(std::memory_order_acquire)) {
    ReadyList ready;
    enter_batch(ready);
    schedule(ready);
  }
}

void ThreadedScheduler::wait_inside(WaitState& state, OpNode& current, Deadline deadline) {
  enter_up_to(state);
  try {
    WaitSearch search(state, current, core_.waits);
    std::optional<bool> deadlock = search.look(kFirstSteps, WaitSearch::IfFound::give_up);
    if (deadlock == true) throw_would_deadlock(*core_.current_function());
    const BlockingEverywhere blocking;
    if (!deadlock && find_deadlock(search, state, deadline)) throw_would_deadlock(*core_.current_function());
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

// Continues a search that its first steps did not decide. False also if the wait ends or the deadline passes.
bool ThreadedScheduler::find_deadlock(WaitSearch& search, WaitState& state, Deadline deadline) {
  for (std::size_t steps = kFirstSteps;; steps = std::min(2 * steps, kMostSteps)) {
    if (is_over_within(state, static_cast<std::int64_t>(steps) * kPauseOfStep)) return false;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    if (const std::optional<bool> deadlock = search.look(steps, WaitSearch::IfFound::give_up))
      return *deadlock;
  }
}

void ThreadedScheduler::help_all(std::uint32_t signal, std::uint8_t epoch) {
  Worker self{.epoch = epoch, .stop_signal = &epochs_.signal(), .stop_signal_value = signal};
  const WorkerScope scope(this, &self);
  note_thread_end();
  idle_workers_.begin_search();
  run_until_idle(self);
}

void ThreadedScheduler::wait_all() {
  if (core_.current_op()) throw WouldDeadlock("wait_all inside an op would wait for that op itself");
  begin_blocking_everywhere();
  {
    Epochs::Wait wait(epochs_);
    QueueNode mark(OpKind::epoch_end);  // on the stack: wait.is_over() implies that the mark was popped
    submissions_.push(&mark);
    wake_one();
    for (;;) {
      const std::uint32_t prepared = wait.prepare();
      if (stopping_) enter_submitted();  // the thread pool has ended, so this thread enters the ops
      if (wait.is_over()) break;
      help_all(prepared, wait.epoch());
      if (wait.is_over()) break;
      ask_progress_sources(nullptr, epochs_.over());
      wait.block(prepared);
    }
  }
  end_blocking_everywhere();
}

void ThreadedScheduler::stop() noexcept {
  // Waits again while ops are left: a thread that completes an asynchronous op may push more ops before that.
  while (!submissions_.empty() || !epochs_.counts_match(0) || !epochs_.counts_match(1)) wait_all();
  stopping_ = true;
  idle_workers_.close();
  pool_.join();
  while (!submissions_.empty()) {
    ReadyList none;
    enter_batch(none);
  }
}

}  // namespace heddle::detail
