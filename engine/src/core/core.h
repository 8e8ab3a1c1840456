// The implementation of Engine: how a ready op is run, completed and released, and the services for that.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

#include <heddle/engine.h>

#include "base/fork.h"
#include "core/op_budget.h"
#include "core/op_observer.h"
#include "core/op_scheduler.h"
#include "core/progress_sources.h"
#include "core/stream_ops.h"
#include "core/thread_state.h"
#include "op/failure.h"
#include "op/failure_ptr.h"
#include "op/op_node.h"
#include "op/var_registry.h"
#include "op/wait_search.h"

namespace heddle::detail {

constexpr int kMostWorkers = 1024;

// Thread-safe. Reference-counted: the Engine holds one reference, every var, graph and prepared op another, so that these
// may outlive the engine.
struct EngineCore {
  explicit EngineCore(const EngineOptions& engine_options);
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  OpScheduler& scheduler() const { return *scheduler_; }
  OpObserver* observer() const { return observer_.get(); }  // null: no observer
  // set_scheduler() and set_observer() are called before the first op is pushed.
  void set_scheduler(std::unique_ptr<OpScheduler> scheduler) { scheduler_ = std::move(scheduler); }
  void set_observer(std::unique_ptr<OpObserver> observer) { observer_ = std::move(observer); }

  void retain() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept;
  // Waits for all ops, logs the errors that nobody saw, ends the threads. Every later push throws. In an op of this engine
  // aborts the process with a message, unless exit() was called inside that op.
  void shut_down() noexcept;
  void check_open() const {  // throws Error after shut_down, and in the child of a fork
    if (forked() || !open_.load(std::memory_order_relaxed)) [[unlikely]]
      throw_closed();
  }
  bool is_open() const { return open_.load(std::memory_order_relaxed); }
  // Whether this is the child of a fork. The core's threads are in the parent then.
  bool forked() const { return generation_ != fork_generation(); }

  // The innermost op of this core that the calling thread is in; null if there is none.
  OpNode* current_op() const;
  // Sets state's `resumes` and `beneath` for a wait that the calling thread is about to make; returns current_op().
  OpNode* note_waiter(WaitState& state) const;
  // The op that messages name, and whose access list counts: current_op(), but inside a graph's launch the op
  // of the graph that runs.
  const OpNode* current_function() const;

  // The functions from run() to skip_reason() are in run.cc: a ready op is run, completed and released.
  //
  // Calls op's function, or skips it if what it reads is poisoned or its group is cancelled. True: op is
  // complete and freed, and `ready` has the ops that it made ready. False: op ends later. If it is
  // asynchronous, OpScheduler::completed_elsewhere() follows; if it is on a stream, issued() and
  // stream_work_done(); if it is deferred until work on streams is done, resume().
  bool run(OpNode* op, int worker, ReadyList& ready) noexcept;
  // Ends op: its function has returned or was skipped, its closure is destroyed. Releases and frees op.
  void complete(OpNode* op, FailurePtr&& failure, ReadyList& ready) noexcept;
  // Ends an asynchronous op: its function has returned and its Completion was called. False if op is a launch with
  // ops on streams, which ends later, and may have been freed.
  bool complete_async(OpNode* op, ReadyList& ready) noexcept;
  // Releases the vars of op, which the caller frees. Ops of users that become ready are appended to `ready`; ops of the
  // other kinds are run here.
  void release_vars(OpNode* op, const FailurePtr& failure, ReadyList& ready) noexcept;
  // Runs an entered op that is not a user's, or deletes a var without handles; `ready` as in release_vars().
  void run_internal(QueueNode* node, ReadyList& ready) noexcept;
  // Why op is to be skipped: the error of a var that it reads, or its group's cancellation. Null: it is to
  // run.
  FailurePtr skip_reason(const OpNode& op);

  std::atomic<Engine*> engine{nullptr};  // null once the Engine is destroyed
  const EngineOptions options;
  const bool extra_for_all;          // whether every op has an OpExtra
  const std::uint32_t trace_number;  // number of this engine in traces
  ErrorLog errors;
  OpWaits waits;
  VarRegistry vars;
  ProgressSources progress_sources;
  OpBudget budget{*this, options};
  StreamOps stream_ops{*this};

 private:
  ~EngineCore() = default;
  [[noreturn]] void throw_closed() const;
  void shut_down_inside(const OpNode& op) noexcept;
  bool run_async(OpNode* op, int worker, ReadyList& ready) noexcept;
  void announce_wait(OpNode* op) noexcept;

  std::unique_ptr<OpObserver> observer_;
  std::unique_ptr<OpScheduler> scheduler_;  // destroyed before the members above, which its threads use
  alignas(64) std::atomic<std::int64_t> refs_{1};  // not on the cache line that every op reads
  std::atomic<bool> open_{true};
  const std::uint32_t generation_;
};

// The error of an asynchronous op whose function and Completion have both ended; null: none.
std::exception_ptr outcome_of(OpNode* op) noexcept;
void announce(WaitState& state) noexcept;  // wakes the threads that wait on `state`, whose poison is written

void check_options(const EngineOptions& options);  // throws InvalidArgument

}  // namespace heddle::detail
