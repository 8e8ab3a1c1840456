// The product: a crew of threads that enter submitted ops, run them, and grant what stood behind them.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "arena.h"
#include "core.h"
#include "crew.h"
#include "fork.h"
#include "parking.h"
#include "region.h"
#include "runner.h"
#include "seats.h"
#include "submissions.h"
#include "urgent.h"

namespace heddle::detail {

class ThreadedCore final : public EngineCore {
 public:
  explicit ThreadedCore(const EngineOptions& engine_options);

  int workers() const override { return seats_.size(); }
  void submit(OpNode* op) override;
  void wait(OpNode* wait_op) override;
  void wait_all() override;
  void finish(OpNode* op, std::shared_ptr<const Failure>&& failure) noexcept override;
  void issued(OpNode* op) noexcept override;
  void ended(OpNode* op) noexcept override;
  void resume(OpNode* op) noexcept override;
  void drop(VarState& var) noexcept override;
  void enter_submitted() override;
  bool has_submitted(const VarState& var) const override;
  void stop() noexcept override;
  int worker_now() const override;
  bool runs_anything() const override;
  void expect_help() override;
  // For tests: a thread is in wait_all(), so what is pushed now comes after it; how often an op went on without a seat.
  bool in_wait_all() const { return balance_waiters_.load(std::memory_order_seq_cst) > 0; }
  std::uint64_t beyond_seats() const { return crew_.in_vain(); }
  std::int64_t in_flight() override;
  bool has_pending() override { return !submissions_.empty() || in_flight() > 0; }
  void visit_pending(Pending& pending) override;
  void begin_blocking() override;
  void end_blocking() noexcept override;
  void parallel(std::int64_t count, std::int64_t grain,
                const std::function<void(std::int64_t, std::int64_t)>& body) override;

 private:
  // The calling thread's Runner, null if it runs no op of this engine or has no seat.
  Runner* this_runner() const {
    Runner* runner = mine.core == this ? mine.runner : nullptr;
    return runner && runner->seat ? runner : nullptr;
  }

  void made_ready(OpNode* op, ReadyList& ready) noexcept override;
  [[gnu::cold]] void start_now(OpNode* op) noexcept;

  // threaded.cc: from submission to end
  const OpNode* submit_one(OpNode* op);
  [[gnu::cold]] void submit_immediate(OpNode* op);
  void set_epoch(OpNode& op, const OpNode* parent);
  void after_submit(const OpNode* parent);
  int drain(ReadyList& ready, bool patient = false);
  void schedule(ReadyList& ready);
  OpNode* run(OpNode* op, Runner& self);
  void tick(Runner& self);
  void consider_short(Runner& self, std::uint32_t each);

  // threaded_search.cc: who looks for work, where and for how long
  // Behind a full fence after work was made visible, or a seat was released: sees to it that somebody looks. Without a free
  // seat nobody could do more; who releases one looks himself.
  void wake_one() {
    if (seats_.any_free()) parking_.notify();
  }
  bool take_seat(Runner& self);
  void release_seat(Runner& self);
  void work();
  void run_until_idle(Runner& self);
  void run_from(OpNode* op, Runner& self);
  bool step_down(OpNode* op, Runner& self);
  bool comes_later(OpNode* op, Runner& self);
  OpNode* search(Runner& self);
  OpNode* find(Runner& self);
  OpNode* find_next(Runner& self);
  OpNode* or_more_urgent(OpNode* op, Runner& self);
  OpNode* take_drained(Runner& self, bool until_ready);
  OpNode* take_from(ReadyQueue& queue, Runner& self);
  bool join_loop(Runner& self);
  void let_time_pass(int pauses) const;
  void be_short(Runner& self);
  void leave_short(Runner& self);
  bool is_short(const Runner& self) const { return short_runner_.load(std::memory_order_relaxed) == &self; }
  std::uint64_t ended_here() const;
  bool has_work() const;
  bool has_ready() const;
  bool is_open() const;
  bool can_work() const;
  Nap look_around(std::uint64_t& progress, int& idle);

  // threaded_wait.cc: threads that wait
  void help(const WaitState& state, VarState& var);
  void wait_inside(WaitState& state, OpNode& current);
  bool find_deadlock(WaitSearch& search, WaitState& state);
  void run_needed(ReadyList& ready, const VarState& var, Runner& self);
  void help_all(std::uint32_t signal, std::uint8_t epoch);
  bool counts_match(std::uint8_t epoch);
  void count_child(std::uint8_t epoch);
  bool balanced(std::uint8_t epoch);
  void check_balance();
  void enter_some();  // threaded_pending.cc

  using Mine = ThreadRole<ThreadedCore>;
  static constinit thread_local Mine mine;
  class ActingAs {  // while one lives, the calling thread is that runner
   public:
    ActingAs(const ThreadedCore* core, Runner* self) : outer_(mine) { mine = {core, self, mine.starting}; }
    ~ActingAs() { mine = outer_; }
    ActingAs(const ActingAs&) = delete;

   private:
    const Mine outer_;
  };

  Submissions submissions_;
  const WholeOverFork whole_over_fork_{submissions_};
  std::uint64_t sequence_ = 0;         // guarded by the lock of submissions_, like:
  std::uint64_t entered_[2] = {0, 0};  // ops of users that no op pushed, of even and odd epochs
  std::uint8_t epoch_ = 0;  // 0 or 1, of ops that are entered now: wait_all waits for those of the other
  std::atomic<std::uint64_t> children_elsewhere_[2] = {0, 0};  // ops pushed by ops on such a thread:
  std::atomic<std::uint64_t> ended_elsewhere_[2] = {0, 0};     // ops that ended on a thread without a seat
  const bool one_core_;  // for the thread that made this, and those that it starts
  Seats seats_;
  Arena arena_;
  ReadyQueue elsewhere_;  // made ready by threads without a seat
  Urgent urgent_;
  Regions regions_;
  Parking parking_;
  std::atomic<Runner*> short_runner_{nullptr};  // its ops are so short that nobody else should run any
  std::atomic<bool> stopping_{false};
  std::mutex wait_all_mutex_;             // held by the one thread in wait_all
  std::atomic<std::uint8_t> awaited_{1};  // the epoch that wait_all waits for
  std::atomic<int> balance_waiters_{0};
  std::atomic<std::uint32_t> balance_signal_{0};
  Crew crew_;  // last: its threads use all of the above
};

}  // namespace heddle::detail
