// What a thread knows while it runs ops.
#pragma once

#include <atomic>
#include <cstdint>

#include "op/op_node.h"
#include "scheduler/worker_slots.h"

namespace heddle::detail {

constexpr std::uint32_t kFairness = 64;  // every so many ops a worker looks at others' queues before its own

std::uint64_t nanoseconds();  // on a clock that never jumps

// A thread that runs ops: one of the thread pool, or one that waits and helps meanwhile.
struct Worker {
  WorkerSlot* slot = nullptr;  // held; null: runs nothing
  WorkerSlot* last_slot = nullptr;
  bool pooled = false;
  bool blocked = false;        // in the middle of an op
  int depth = 0;               // ops that wait below the one it runs
  bool look_outside = false;   // at others' queues before its own, once
  bool enough = false;         // helps no more: what is left was pushed after its wait_all
  std::uint8_t epoch = 0;      // of the op that ended last; of a wait_all: its own
  std::uint32_t ops = 0;       // run so far
  int slow = 0;                // ticks in a row in which it was too slow to be alone
  int trial = 0;               // below zero: ticks until it tries again to be alone
  std::uint32_t together = 0;  // nanoseconds an op took with all of them
  std::uint64_t ticked = 0;    // nanoseconds, when it last looked at the clock
  const std::atomic<std::uint32_t>* stop = nullptr;  // stops looking for work when this is no longer
  std::uint32_t stop_unless = 0;                     // that
};

// What a thread is doing for which engine.
template <class Core> struct WorkerContext {
  const Core* core = nullptr;
  Worker* worker = nullptr;
  ReadyList* starting = nullptr;  // immediate ops that it is about to start
};

// While one lives, the calling thread is that worker of that engine.
template <class Core> class WorkerScopeOf {
 public:
  WorkerScopeOf(const Core* core, Worker* self) : outer_(Core::worker_context) {
    Core::worker_context = {core, self, Core::worker_context.starting};
  }
  ~WorkerScopeOf() { Core::worker_context = outer_; }
  WorkerScopeOf(const WorkerScopeOf&) = delete;
  WorkerScopeOf& operator=(const WorkerScopeOf&) = delete;

 private:
  const WorkerContext<Core> outer_;
};

}  // namespace heddle::detail
