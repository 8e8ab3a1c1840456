// What a thread knows while it runs ops.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "base/clock.h"
#include "op/op_node.h"
#include "scheduler/worker_slots.h"

namespace heddle::detail {

// Ops after which a worker looks at the queues of others before its own.
constexpr std::uint32_t kFairness = 64;
constexpr int kEnterBatch = 64;  // submissions entered under one lock

// Finds out that ops take long. Where they are short it looks at the clock after every fourth one only.
class OpWatch {
 public:
  // Before an op; the first call begins.
  void start() {
    if (last_ == 0) last_ = nanoseconds();
  }
  // After an op. True if this one, or the last few together, took more than kLong.
  bool took_long() {
    if (--left_ > 0) return false;
    const std::uint64_t now = nanoseconds(), took = now - std::exchange(last_, now);
    every_ = took < kShort ? std::min(2 * every_, 4) : 1;
    left_ = every_;
    return took > kLong;
  }
  // After the last op. took_long() does not look at the clock after each op: true if the ops since its last look took more than kLong.
  bool rest_took_long() const { return left_ < every_ && nanoseconds() - last_ > kLong; }

 private:
  static constexpr std::uint64_t kShort = 5'000, kLong = 50'000;  // nanoseconds
  std::uint64_t last_ = 0;
  int every_ = 1, left_ = 1;
};

// A thread that runs ops: one of the thread pool, or one that waits and helps meanwhile.
struct Worker {
  WorkerSlot* slot = nullptr;  // held; null: runs nothing
  WorkerSlot* last_slot = nullptr;
  bool pooled = false;           // belongs to the thread pool
  bool blocked = false;          // in the middle of an op
  int depth = 0;                 // ops on its stack that wait while it runs another one
  std::intptr_t stack_base = 0;  // the stack's address at the first wait inside which it runs others
  bool look_outside = false;     // the next search begins with the queues of others, not with its own
  bool done_helping = false;     // of a thread in wait_all: the ops that are left were pushed after its call
  bool has_spun = false;         // for as long as EngineOptions::spin says, without a new op
  std::uint8_t epoch = 0;  // of the op that ended last; of a thread in wait_all: the one that it waits for
  std::uint32_t ops = 0;   // run so far
  OpWatch* watch =
      nullptr;  // finds long ops; set while a thread outside ops waits, not for waits inside what it runs
  int slow_ticks = 0;                // ticks in a row in which its ops were too long for an exclusive worker
  int trial_delay = 0;               // ticks until it tries again to be the exclusive worker
  std::uint32_t shared_op_time = 0;  // nanoseconds an op took all workers together, before one was exclusive
  std::uint64_t last_tick = 0;       // nanoseconds; 0: before the first tick
  std::uint64_t move_at =
      0;  // nanoseconds: it shares the core of its waker, and leaves it if it has work then; 0: it does not
  // If not null: the thread stops looking for work when *stop_signal is no longer stop_signal_value.
  const std::atomic<std::uint32_t>* stop_signal = nullptr;
  std::uint32_t stop_signal_value = 0;
};

// What a thread is doing for which engine. Scheduler: ThreadedScheduler.
template <class Scheduler> struct WorkerContext {
  const Scheduler* scheduler = nullptr;
  Worker* worker = nullptr;
  ReadyList* starting = nullptr;  // immediate ops that it is about to start
  // The worker, if the thread runs an op of that engine and has a slot.
  Worker* with_slot(const Scheduler* of) const {
    return scheduler == of && worker && worker->slot ? worker : nullptr;
  }
};

// While one lives, the calling thread is that worker of that engine.
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
