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

class OpScheduler {
 public:
  explicit OpScheduler(EngineCore& core) : core_(core) {}
  virtual ~OpScheduler() = default;
  OpScheduler(const OpScheduler&) = delete;
  OpScheduler& operator=(const OpScheduler&) = delete;

  virtual void submit(OpNode* op) = 0;  // owns the filled-in op from now on
  // Runs ops that a wait for var needs, without blocking. over: all ops pushed so far that mutate var are
  // done, and `poison` is set to var's error. not_over: wait() has to follow. long_op: the same, and the
  // waiting thread leaves the remaining ops to others, since ops take long.
  enum class Help : std::uint8_t { over, not_over, long_op };
  virtual Help help_until_over(VarState&, FailurePtr&) { return Help::not_over; }
  virtual void wait(OpNode* wait_op) = 0;  // submits wait_op and blocks until its WaitState holds the outcome
  // As wait(), until `deadline` at the latest. False: the wait was given up.
  virtual bool wait_until(OpNode* wait_op, Deadline deadline) = 0;
  virtual void wait_all() = 0;  // blocks until every op pushed so far and what those push is done
  // Called on any thread when an op of `epoch` has completed outside of this scheduler's calls of
  // EngineCore::run(). `ready` has the ops that it made ready.
  virtual void completed_elsewhere(std::uint8_t epoch, ReadyList& ready) noexcept = 0;
  virtual void drop(VarState& var) noexcept;  // deletes var, whose last handle is gone
  virtual void enter_submitted() {}           // queues all ops pushed so far on their vars
  // Whether all ops pushed so far are queued on their vars; false also if that cannot be told at once.
  virtual bool all_entered() noexcept { return false; }
  // In the child of a fork: whether ops on var were pushed and not yet entered.
  virtual bool has_submitted(const VarState&) const { return false; }
  // Called after wait_all, when no op is pushed any more. Ends the threads of the scheduler.
  virtual void stop() noexcept = 0;
  virtual int workers() const { return 1; }

  // in_flight(), has_pending() and visit_pending() may be called on any thread at any time. in_flight():
  // number of users' ops that are entered and have not ended. has_pending(): whether any op has not ended.
  // visit_pending(): shows the ops that are not entered yet, or ready.
  virtual std::int64_t in_flight() = 0;
  virtual bool has_pending() { return in_flight() > 0; }
  virtual void visit_pending(Pending&) {}

  // Called by StreamOps when op was issued, and its vars may be released.
  virtual void issued(OpNode* op) noexcept = 0;
  // Called on any thread when the work that op enqueued on its stream is done. Frees op.
  virtual void stream_work_done(OpNode* op) noexcept = 0;
  // Called on any thread when the work on streams that op was deferred for is done. Runs op.
  virtual void resume(OpNode* op) noexcept = 0;
  // Called on any thread, without a lock, when a WaitState is done or await() may be over.
  virtual void wake_waiters() noexcept {}
  // For Scheduler::naive: blocks inside the op that the calling thread runs until over(), which changes before a call of
  // wake_waiters().
  virtual void await(const std::function<bool()>& over) { (void)over; }
  virtual std::unique_ptr<Stream> new_stream(Device device, Lane lane);

  virtual void parallel(std::int64_t count, std::int64_t grain,
                        const std::function<void(std::int64_t, std::int64_t)>& body);

  // The worker number that the calling thread has now; -1 if it may not start another op.
  virtual int worker_now() const { return 0; }
  // Whether the calling thread may run any op. It may not while it waits for something.
  virtual bool runs_anything() const { return true; }
  // Called by an op that has work for other threads.
  virtual void expect_help() {}

  // Called on a thread that is going to block inside an op of this core. Throws Error if no other thread can
  // work meanwhile.
  virtual void begin_blocking() {}
  virtual void end_blocking() noexcept {}

  // Waits until the budget has room for an op that holds so many bytes, and acquires it.
  virtual void await_budget(Budget& budget, std::size_t bytes);
  virtual void budget_released() noexcept {}  // a push has failed and released its room (no op has ended)

  // Called by EngineCore::run() and what follows it, when op has completed and its closure is destroyed.
  // Releases op's vars, leaves `failure` on those that op mutates, and frees op. Resets `failure` before op
  // counts as completed: ErrorLog takes an error that something else refers to for one that still poisons a
  // var.
  virtual void release_op(OpNode* op, FailurePtr&& failure, ReadyList& ready) noexcept;
  // Called when a user's op with a priority, or an immediate one, is ready: appends it to `ready`, starts it
  // or queues it.
  virtual void made_ready(OpNode* op, ReadyList& ready) noexcept { ready.push_back(op); }

 protected:
  EngineCore& core_;  // the core that owns this scheduler
};

void (*interrupt_check())();  // the calling thread's check, see set_interrupt_check(); null: none

std::unique_ptr<OpScheduler> make_naive_scheduler(EngineCore& core);
std::unique_ptr<OpScheduler> make_fuzz_scheduler(EngineCore& core);
// Throws Error if threads cannot be started.
std::unique_ptr<OpScheduler> make_threaded_scheduler(EngineCore& core);

}  // namespace heddle::detail
