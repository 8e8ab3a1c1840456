// The state of a thread that runs ops.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "base/clock.h"
#include "op/op_node.h"
#include "scheduler/worker_slots.h"

namespace heddle::detail {

// Number of ops after which a worker looks at the queues of others before its own.
constexpr std::uint32_t kFairness = 64;
constexpr int kEnterBatch = 64;  // most submissions that are entered while the lock is held once

// Detects long ops. Reads the clock after every fourth op only while ops are short.
class OpWatch {
 public:
  // Call before an op; the first call starts the measurement.
  void start() {
    if (last_ == 0) last_ = nanoseconds();
  }
  // Call after each op. True if the ops since the clock was last read, one or a few, took more than kLong.
  bool took_long() {
    if (--left_ > 0) return false;
    const std::uint64_t now = nanoseconds(), took = now - std::exchange(last_, now);
    every_ = took < kShort ? std::min(2 * every_, 4) : 1;
    left_ = every_;
    return took > kLong;
  }
  // Call after the last op. True if the ops since took_long() last read the clock took more than kLong.
  bool rest_took_long() const { return left_ < every_ && nanoseconds() - last_ > kLong; }

 private:
  static constexpr std::uint64_t kShort = 5'000, kLong = 50'000;  // both in nanoseconds
  std::uint64_t last_ = 0;
  int every_ = 1, left_ = 1;
};

// A thread that runs ops: one of the thread pool, or one that waits and runs ops meanwhile.
struct Worker {
  WorkerSlot* slot = nullptr;  // the worker slot that the thread holds; null: none
  WorkerSlot* last_slot = nullptr;
  bool pooled = false;           // whether the thread belongs to the pool
  bool blocked = false;          // whether the thread blocks inside an op
  int depth = 0;                 // number of ops on the stack that wait while the thread runs another one
  std::intptr_t stack_base = 0;  // the stack's address at the outermost wait that runs other ops
  bool look_outside = false;     // true: the next search for an op begins outside the thread's own queue
  bool done_helping = false;     // set in wait_all: the ops that are left were pushed after that call
  bool has_spun = false;         // whether the thread has spun for EngineOptions::spin in vain
  std::uint8_t epoch = 0;        // epoch of the op that the thread ran last; in wait_all: the awaited epoch
  std::uint32_t ops = 0;         // number of ops run so far
  // Detects long ops while a thread outside ops waits and runs ops. Null during waits inside those ops.
  OpWatch* watch = nullptr;
  int slow_ticks = 0;   // number of successive ticks with ops too long for an exclusive worker
  int trial_delay = 0;  // number of ticks until the worker tries again to be exclusive
  // Nanoseconds per op of all workers together, measured when this worker became exclusive.
  std::uint32_t shared_op_time = 0;
  std::uint64_t last_tick = 0;  // time of the last tick in nanoseconds; 0: none yet
  // Time in nanoseconds at which this worker, if it has work, moves off the core that it shares with the
  // thread that woke it; 0: never.
  std::uint64_t move_at = 0;
  // If not null: the thread stops looking for work when *stop_signal is no longer stop_signal_value.
  const std::atomic<std::uint32_t>* stop_signal = nullptr;
  std::uint32_t stop_signal_value = 0;
};

// The scheduler for which a thread runs ops, and the thread's Worker there. `Scheduler` is ThreadedScheduler.
template <class Scheduler> struct WorkerContext {
  const Scheduler* scheduler = nullptr;
  Worker* worker = nullptr;
  ReadyList* starting = nullptr;  // immediate ops that the thread is about to start
  // The thread's Worker if it runs ops for the scheduler `of` and holds a slot; else null.
  Worker* with_slot(const Scheduler* of) const {
    return scheduler == of && worker && worker->slot ? worker : nullptr;
  }
};

// While a WorkerScopeOf lives, the calling thread is worker `self` of that scheduler.
template <class Scheduler> class WorkerScopeOf {
 public:
  WorkerScopeOf(const Scheduler* scheduler, Worker* self) : outer_(Scheduler::worker_context) {
    Scheduler::worker_context = {scheduler, self, Scheduler::worker_context.starting};
  }
  ~WorkerScopeOf() { Scheduler::worker_context = outer_; }
  WorkerScopeOf(const WorkerScopeOf&) = delete;
  WorkerScopeOf& operator=(const WorkerScopeOf&) = delete;

 private:
  const WorkerContext<Scheduler> outer_;
};

}  // namespace heddle::detail
