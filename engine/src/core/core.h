// What the three schedulers share: the life of an op from its push to its end, errors included.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <heddle/engine.h>

#include "base/fork.h"
#include "core/progress_sources.h"
#include "core/scheduling.h"
#include "core/thread_state.h"
#include "op/budget.h"
#include "op/failure.h"
#include "op/op_node.h"
#include "op/var_registry.h"
#include "op/wait_search.h"

namespace heddle::detail {

constexpr int kMostWorkers = 1024;

class Streams;
struct Dependency;
struct EngineCore;
class Pending;
class Watch;

// Between its scheduler and the Engine. Reference-counted: the Engine holds one, every var and prepared op another, so that all may outlive the engine.
struct EngineCore : Scheduling {
  explicit EngineCore(const EngineOptions& engine_options, bool extra = false);
  ~EngineCore() override;
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  Watch* watch() const { return watch_.get(); }  // null without EngineOptions::watchdog
  void start_watchdog();                         // throws std::system_error

  // Null until the first stream is made.
  Streams* streams() const { return streams_.load(std::memory_order_acquire); }
  Streams& need_streams();
  std::string streams_before(const OpNode& op) const;  // the names of those that op is kept back for
  // As poison_of_reads, and what has failed on streams.
  std::shared_ptr<const Failure> failure_of_reads(const OpNode& op) const;

  void retain() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept;

  // Waits for all ops, logs the errors that nobody saw, ends the threads. Every later push throws. In an op of this engine
  // aborts the process with a message, unless exit() was called there.
  void shut_down() noexcept;
  void check_open() const {  // throws Error after shut_down, and in the child of a fork
    if (forked() || !open_.load(std::memory_order_relaxed)) [[unlikely]]
      throw_closed();
  }
  // Room for an op of a user, see Budget. Waits for it, unless the calling thread is in an op, of any engine, or in the
  // work of one: that might be the one whose end makes room. Throws Error if the engine is shut down meanwhile.
  // `anyway`: for ops of the engine's own, never blocks.
  void take_room_anyway(std::size_t bytes) {
    if (budget_) budget_->take_anyway(bytes);
  }
  void take_room(std::size_t bytes) {
    if (budget_) take_bounded(bytes);
  }
  void give_room(std::size_t bytes) noexcept {
    if (budget_) budget_->give_back(bytes);
  }
  // For an op that was not pushed in the end.
  void return_room(std::size_t bytes) noexcept {
    give_room(bytes);
    if (budget_) room_returned();
  }
  bool bounded() const { return budget_ != nullptr; }

  // This is the child of a fork, the core's threads are in the parent.
  bool forked() const { return generation_ != fork_generation(); }

  // Throws WouldDeadlock if the calling thread is in an op on a stream, of whatever engine: it has the stream's gate; or
  // in the work of one.
  static void check_may_wait();

  // The innermost op of this core that the calling thread is in; null if there is none.
  OpNode* current_op() const;

  const EngineOptions options;
  const bool extra_for_all;          // every op has an OpExtra
  const std::uint32_t trace_number;  // this engine, in traces
  ErrorLog errors;
  OpWaits waits;
  VarRegistry vars;
  ProgressSources progress_sources;

 protected:
  friend void complete_parts(OpNode* op) noexcept;
  virtual void await_room(std::size_t bytes) { budget_->take(bytes); }
  virtual void room_returned() noexcept {}  // without an op that has ended
  // Runs op's function, or skips it if what it reads is poisoned; finish() follows, now or from a Completion. Beside
  // streams it may be resume() or issued() and ended() instead.
  void execute(OpNode* op, int worker) noexcept;
  // Gives back the vars of op, which the caller frees. Ops of the other kinds that become ready are run here; those of users are
  // appended to `ready`.
  void settle(OpNode* op, const std::shared_ptr<const Failure>& failure, ReadyList& ready) noexcept;
  // Runs an entered op of another kind, or lets go of a var; then as settle().
  void run_internal(QueueNode* node, ReadyList& ready) noexcept;
  const std::unique_ptr<Budget> budget_;  // null: unbounded

 private:
  [[noreturn]] void throw_closed() const;
  void shut_down_inside(const OpNode& op) noexcept;
  void take_bounded(std::size_t bytes);
  std::shared_ptr<const Failure> skip_reason(const OpNode& op);
  void execute_async(OpNode* op, int worker) noexcept;
  // cold: programs without streams pay for one branch, and not for what is behind it.
  [[gnu::cold]] bool may_run_on_cpu(OpNode* op, int worker) noexcept;
  void issue_in_turn(OpNode* op, int worker) noexcept;
  void issue(OpNode* op, int worker) noexcept;
  std::shared_ptr<const Failure> outcome(
      OpNode* op, std::exception_ptr own,
      const std::vector<std::shared_ptr<const Failure>>& inherited) noexcept;
  bool is_lost(const OpNode& op) const;
  void keep_back(OpNode* op, std::vector<Dependency>&& after) noexcept;
  void end_unissued(OpNode* op, std::shared_ptr<const Failure>&& failure) noexcept;
  [[gnu::cold]] void signal_after(FenceSet& fences, const std::shared_ptr<WaitState>& state) noexcept;
  void signal(OpNode* op) noexcept;
  void end(OpNode* op, std::exception_ptr thrown) noexcept;
  void end_with(OpNode* op, std::shared_ptr<const Failure>&& failure) noexcept;
  std::atomic<Streams*> streams_{nullptr};  // ops look at it; what comes before it never changes
  alignas(64) std::atomic<std::int64_t> refs_{1};
  std::atomic<bool> open_{true};
  std::unique_ptr<Watch> watch_;
  const std::uint32_t generation_;
};

std::string stream_name(const OpNode& op);  // where it is issued, "" on the CPU
// The error with which both parts of an asynchronous op have ended.
std::exception_ptr outcome_of(OpNode* op) noexcept;
void announce(WaitState& state) noexcept;  // its poison is written; wakes who waits for it
void complete_parts(OpNode* op) noexcept;  // both parts of an asynchronous op have ended

void check_options(const EngineOptions& options);  // throws InvalidArgument
EngineCore* make_naive_core(const EngineOptions& options);
EngineCore* make_fuzz_core(const EngineOptions& options);
EngineCore* make_threaded_core(const EngineOptions& options);

}  // namespace heddle::detail
