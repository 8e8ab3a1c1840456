// The part of an engine that decides when and where ops run. There are three: threaded, naive and fuzz.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <heddle/stream.h>

#include "op/op_node.h"

namespace heddle::detail {

class Budget;
class Pending;
struct EngineCore;
struct Failure;

class OpScheduler {
 public:
  explicit OpScheduler(EngineCore& core) : core_(core) {}
  virtual ~OpScheduler() = default;
  OpScheduler(const OpScheduler&) = delete;
  OpScheduler& operator=(const OpScheduler&) = delete;

  virtual void submit(OpNode* op) = 0;  // takes over a filled-in op
  // Runs ops that a wait for var needs, without blocking. over: all ops pushed so far that mutate var are done; `poison` is var's.
  // Else wait() is due; long_op: the rest is left to others, since ops take long.
  enum class Help : std::uint8_t { over, not_over, long_op };
  virtual Help help_until_over(VarState&, std::shared_ptr<const Failure>&) { return Help::not_over; }
  virtual void wait(OpNode* wait_op) = 0;  // submits it and blocks until its WaitState holds the outcome
  // As wait, until then at the latest; false: it was given up.
  virtual bool wait_until(OpNode* wait_op, Deadline deadline) = 0;
  virtual void wait_all() = 0;  // blocks until every op pushed so far and what those push is done
  // An op of this epoch has completed outside of this scheduler's own calls of EngineCore::run(), on any thread;
  // `ready` has what it made ready.
  virtual void completed_elsewhere(std::uint8_t epoch, ReadyList& ready) noexcept = 0;
  virtual void drop(VarState& var) noexcept;  // its last handle is gone
  virtual void enter_submitted() {}  // all that was pushed so far is queued on its vars when this returns
  // Whether all that was pushed so far is queued on its vars; false also if that cannot be told at once.
  virtual bool all_entered() noexcept { return false; }
  // In the child of a fork: ops on var were pushed and not yet entered.
  virtual bool has_submitted(const VarState&) const { return false; }
  // After wait_all: no op is pushed any more. Ends the threads of the scheduler.
  virtual void stop() noexcept = 0;
  virtual int workers() const { return 1; }

  // From any thread, at any time: how many ops of users were entered and have not ended; whether anything is under way;
  // shows those that are pushed and not entered, or ready.
  virtual std::int64_t in_flight() = 0;
  virtual bool has_pending() { return in_flight() > 0; }
  virtual void visit_pending(Pending&) {}

  // Called by StreamOps. op was issued: others may have its vars.
  virtual void issued(OpNode* op) noexcept = 0;
  // The work that op enqueued on its stream is done. Any thread. Frees op.
  virtual void stream_work_done(OpNode* op) noexcept = 0;
  // The work on streams that op was kept back for is done. Any thread. Runs op.
  virtual void resume(OpNode* op) noexcept = 0;
  virtual void wake_waiters() noexcept {}  // a WaitState is done, any thread, no lock held
  virtual std::unique_ptr<Stream> new_stream(Device device, Lane lane);

  virtual void parallel(std::int64_t count, std::int64_t grain,
                        const std::function<void(std::int64_t, std::int64_t)>& body);

  // The calling thread's worker number now, -1 if it may not start another op.
  virtual int worker_now() const { return 0; }
  // The calling thread may run any op now: it is not one that waits for something.
  virtual bool runs_anything() const { return true; }
  // The op that the calling thread runs has work for others.
  virtual void expect_help() {}

  // The calling thread, which runs an op of this core, is going to block. Throws Error if nobody can work instead.
  virtual void begin_blocking() {}
  virtual void end_blocking() noexcept {}

  // Waits until an op that holds so many bytes has room in the budget, and acquires it.
  virtual void await_budget(Budget& budget, std::size_t bytes);
  virtual void budget_released() noexcept {}  // by a push that failed, not by the end of an op

  // Called by EngineCore::run() and what follows it.
  // op has completed and its closure is destroyed: releases its vars with `failure` on those that it mutates, and frees it.
  // Resets `failure` before op counts as completed: ErrorLog takes an error with a second reference for one that poisons a
  // var.
  virtual void release_op(OpNode* op, std::shared_ptr<const Failure>&& failure, ReadyList& ready) noexcept;
  // A user's op is ready that has a priority or is immediate: appends it to `ready`, or starts or queues it.
  virtual void made_ready(OpNode* op, ReadyList& ready) noexcept { ready.push_back(op); }

 protected:
  EngineCore& core_;  // owns this
};

void (*interrupt_check())();  // of the calling thread; null: it has none

std::unique_ptr<OpScheduler> make_naive_scheduler(EngineCore& core);
std::unique_ptr<OpScheduler> make_fuzz_scheduler(EngineCore& core);
std::unique_ptr<OpScheduler> make_threaded_scheduler(
    EngineCore& core);  // throws Error if threads cannot be started

}  // namespace heddle::detail
