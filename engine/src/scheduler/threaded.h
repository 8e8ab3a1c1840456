// The default scheduler: a thread pool that enters submitted ops, runs them and releases what waits for them.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/arena.h"
#include "base/fork.h"
#include "base/idle_workers.h"
#include "base/submission_queue.h"
#include "core/core.h"
#include "op/need_search.h"
#include "scheduler/epochs.h"
#include "scheduler/parallel_loop.h"
#include "scheduler/priority_queue.h"
#include "scheduler/thread_pool.h"
#include "scheduler/worker.h"
#include "scheduler/worker_slots.h"

namespace heddle::detail {

class ThreadedScheduler final : public OpScheduler {
 public:
  explicit ThreadedScheduler(EngineCore& core);

  int workers() const override { return slots_.size(); }
  void submit(OpNode* op) override;
  Help help_until_over(VarState& var, FailurePtr& poison) override;
  void wait(OpNode* wait_op) override;
  bool wait_until(OpNode* wait_op, Deadline deadline) override;
  void wait_all() override;
  void completed_elsewhere(std::uint8_t epoch, ReadyList& ready) noexcept override;
  void issued(OpNode* op) noexcept override;
  void stream_work_done(OpNode* op) noexcept override;
  void resume(OpNode* op) noexcept override;
  void drop(VarState& var) noexcept override;
  void enter_submitted() override;
  bool all_entered() noexcept override;
  bool has_submitted(const VarState& var) const override;
  void stop() noexcept override;
  int worker_now() const override;
  bool runs_anything() const override;
  void expect_help() override;
  // For tests. slot_timeouts(): how often an op has continued without a slot.
  bool in_wait_all() const { return epochs_.is_awaited(); }
  std::uint64_t slot_timeouts() const { return pool_.slot_timeouts(); }
  std::int64_t in_flight() override { return epochs_.in_flight(); }
  bool has_pending() override { return !submissions_.empty() || in_flight() > 0; }
  void visit_pending(Pending& pending) override;
  void begin_blocking() override;
  void end_blocking() noexcept override;
  void parallel(std::int64_t count, std::int64_t grain,
                const std::function<void(std::int64_t, std::int64_t)>& body) override;

 private:
  template <class> friend class WorkerScopeOf;
  Worker* this_worker() const { return worker_context.with_slot(this); }
  void made_ready(OpNode* op, ReadyList& ready) noexcept override;
  [[gnu::cold]] void start_now(OpNode* op) noexcept;

  // In threaded.cc: functions that take an op from its submission to its end.
  const OpNode* submit_one(OpNode* op);
  bool run_brief(OpNode* op);
  [[gnu::cold]] void submit_immediate(OpNode* op);
  void set_epoch(OpNode& op, const OpNode* parent);
  WorkerSlot* slot_here() const;
  void after_submit(const OpNode* parent);
  int enter_batch(ReadyList& ready, bool patient = false);
  void release_entered(QueueNode* nodes, ReadyList& ready);
  void schedule(ReadyList& ready);
  OpNode* run(OpNode* op, Worker& self);
  void tick(Worker& self);
  void consider_exclusive(Worker& self, std::uint32_t each);

  // In threaded_search.cc: which thread looks for work, where, for how long. wake_one() needs a full fence before.
  void wake_one() { slots_.any_free() ? idle_workers_.notify() : void(); }
  bool take_slot(Worker& self);
  void release_slot(Worker& self);
  void work();
  void run_until_idle(Worker& self);
  void run_from(OpNode* op, Worker& self);
  bool may_spin(const Worker& self) const { return self.pooled && core_.options.spin > 0 && !stopping_; }
  OpNode* spin(Worker& self);
  bool yield_slot(OpNode* op, Worker& self);
  bool is_after_wait_all(OpNode* op, Worker& self);
  OpNode* search(Worker& self);
  OpNode* find(Worker& self);
  OpNode* find_next(Worker& self);
  OpNode* or_higher_priority(OpNode* op, Worker& self);
  OpNode* take_entered(Worker& self, bool until_ready);
  OpNode* take_from(ReadyQueue& queue, Worker& self);
  bool join_loop(Worker& self);
  void let_time_pass(int pauses) const;
  void become_exclusive(Worker& self);
  void end_exclusive(Worker& self);
  bool is_exclusive(const Worker& self) const {
    return exclusive_worker_.load(std::memory_order_relaxed) == &self;
  }
  bool has_work() const;
  bool has_ready() const;
  bool is_open() const;
  bool can_work() const;
  MonitorResult monitor_once(std::uint64_t& progress, int& idle);

  // In threaded_wait.cc: what threads do while they wait.
  bool at_rest(VarState& var, FailurePtr& poison);
  template <class Over> void help(NeedSearch& needed, Over over);
  bool help_once(NeedSearch& needed, Worker& self);
  OpNode* take_needed(ReadyQueue& queue, NeedSearch& needed);
  OpNode* find_needed(NeedSearch& needed, Worker& self);
  void run_needed(OpNode* op, NeedSearch& needed, Worker& self);
  void enter_up_to(const WaitState& state);
  void wait_inside(WaitState& state, OpNode& current, Deadline deadline = kNever);
  bool find_deadlock(WaitSearch& search, WaitState& state, Deadline deadline);
  void ask_progress_sources(VarState* var, const std::atomic<std::uint32_t>& over);
  void help_all(std::uint32_t signal, std::uint8_t epoch);
  void enter_some();  // defined in threaded_pending.cc
  using Context = WorkerContext<ThreadedScheduler>;
  static constinit thread_local Context worker_context;
  using WorkerScope = WorkerScopeOf<ThreadedScheduler>;

  SubmissionQueue submissions_;
  const HeldDuringFork held_during_fork_{submissions_};
  std::atomic<std::uint64_t> sequence_ = 0;  // next op's sequence number; written under submissions_' lock
  const bool one_core_;                      // whether the engine's threads have one core only
  WorkerSlots slots_;
  Epochs epochs_{submissions_, slots_};
  Arena arena_;
  ReadyQueue ready_without_slot_;  // ops made ready by threads without a slot
  PriorityQueue priority_queue_;
  ParallelLoops loops_;
  IdleWorkers idle_workers_;
  std::atomic<Worker*> exclusive_worker_{nullptr};  // runs all ops while they are very short; null: none
  std::atomic<bool> stopping_{false};
  ThreadPool pool_;  // the last member, since its threads use all of the above
};

}  // namespace heddle::detail
