// What the three schedulers share: the life of an op from its push to its end, errors included.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include <heddle/engine.h>

#include "budget.h"
#include "failure.h"
#include "fork.h"
#include "op_node.h"
#include "thread_state.h"
#include "var_registry.h"

namespace heddle::detail {

struct EngineCore;
class Pending;
class Watch;

// Reference-counted: the Engine holds one, every var and prepared op another, so that all may outlive the engine.
struct EngineCore {
  explicit EngineCore(const EngineOptions& engine_options, bool extra = false);
  virtual ~EngineCore();
  EngineCore(const EngineCore&) = delete;
  EngineCore& operator=(const EngineCore&) = delete;

  virtual void submit(OpNode* op) = 0;  // takes over a filled-in op
  virtual void submit_all(OpNode* first,
                          OpNode* last) = 0;  // linked by next_ready; nothing comes between them
  virtual void wait(OpNode* wait_op) = 0;     // submits it and blocks until its WaitState holds the outcome
  virtual void wait_all() = 0;  // blocks until every op pushed so far and what those push is done
  // op has ended and its closure is destroyed; `failure` is what it leaves on the vars it mutates. Lets go of `failure`
  // before op counts as ended: an error that only this thread still holds must not look as if it poisoned a var.
  virtual void finish(OpNode* op, std::shared_ptr<const Failure>&& failure) noexcept = 0;
  virtual void drop(VarState& var) noexcept;  // its last handle is gone
  virtual void enter_submitted() {}  // all that was pushed so far is queued on its vars when this returns
  // In the child of a fork: ops on var were pushed and not yet entered.
  virtual bool has_submitted(const VarState&) const { return false; }
  virtual void stop() noexcept = 0;  // after wait_all; no op is pushed any more
  virtual int workers() const { return 1; }

  // From any thread, at any time: how many ops of users were entered and have not ended; whether anything is under way;
  // shows those that are pushed and not entered, or ready.
  virtual std::int64_t in_flight() = 0;
  virtual bool has_pending() { return in_flight() > 0; }
  virtual void visit_pending(Pending&) {}
  Watch* watch() const { return watch_.get(); }  // null without EngineOptions::watchdog
  void start_watchdog();                         // throws std::system_error

  virtual void parallel(std::int64_t count, std::int64_t grain,
                        const std::function<void(std::int64_t, std::int64_t)>& body);

  // The calling thread's worker number now, -1 if it may not start another op.
  virtual int worker_now() const { return 0; }
  // The op that the calling thread runs has work for others.
  virtual void expect_help() {}

  // The calling thread, which runs an op of this core, is going to block. Throws Error if nobody can work instead.
  virtual void begin_blocking() {}
  virtual void end_blocking() noexcept {}

  void retain() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept;

  // Waits for all ops, logs the errors that nobody saw, ends the threads. Every later push throws.
  void shut_down() noexcept;
  void check_open() const {  // throws Error after shut_down, and in the child of a fork
    if (forked() || !open_.load(std::memory_order_relaxed)) [[unlikely]]
      throw_closed();
  }
  // Room for an op of a user, see Budget. Waits for it, unless the calling thread is in an op, of any engine: that might
  // be the one whose end makes room. Throws Error if the engine is shut down meanwhile.
  // For ops of the engine's own: never blocks.
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

  // The innermost op of this core that the calling thread is in; null if there is none.
  OpNode* current_op() const;

  const EngineOptions options;
  const bool extra_for_all;          // every op has an OpExtra
  const std::uint32_t trace_number;  // this engine, in traces
  ErrorLog errors;
  std::mutex one_search;  // see depends(); vars' locks may be taken inside
  VarRegistry vars;

 protected:
  friend void complete_parts(OpNode* op) noexcept;
  virtual void await_room(std::size_t bytes) { budget_->take(bytes); }
  virtual void room_returned() noexcept {}  // without an op that has ended
  // Runs op's function, or skips it if what it reads is poisoned; finish() follows, now or from a Completion.
  void execute(OpNode* op, int worker) noexcept;
  // Gives back the vars of op and frees it. Ops of the other kinds that become ready are run here; those of users are
  // appended to `ready`.
  void settle(OpNode* op, const std::shared_ptr<const Failure>& failure, ReadyList& ready) noexcept;
  // A user's op is ready: appends it to `ready`, or keeps it where ops of its priority belong.
  virtual void made_ready(OpNode* op, ReadyList& ready) noexcept { ready.push_back(op); }
  // Runs an entered op of another kind, or lets go of a var; then as settle().
  void run_internal(QueueNode* node, ReadyList& ready) noexcept;
  const std::unique_ptr<Budget> budget_;  // null: unbounded

 private:
  [[noreturn]] void throw_closed() const;
  void take_bounded(std::size_t bytes);
  std::shared_ptr<const Failure> obstacle(const OpNode& op);
  void execute_async(OpNode* op, int worker) noexcept;
  void signal(OpNode* op) noexcept;
  void end(OpNode* op, std::exception_ptr thrown) noexcept;
  std::atomic<std::int64_t> refs_{1};
  std::atomic<bool> open_{true};
  std::unique_ptr<Watch> watch_;
  const std::uint32_t generation_;
};

// The error with which both parts of an asynchronous op have ended.
std::exception_ptr outcome_of(OpNode* op) noexcept;
void complete_parts(OpNode* op) noexcept;  // both parts of an asynchronous op have ended

EngineCore* make_naive_core(const EngineOptions& options);
EngineCore* make_fuzz_core(const EngineOptions& options);
EngineCore* make_threaded_core(const EngineOptions& options);

}  // namespace heddle::detail
