// The product: a crew of threads that enter submitted ops, run them, and grant what stood behind them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "arena.h"
#include "core.h"
#include "crew.h"
#include "parking.h"
#include "region.h"
#include "seats.h"
#include "submissions.h"

namespace heddle::detail {

constexpr std::uint32_t kFairness = 64;  // every so many ops a runner looks at others' queues before its own

// A thread that runs ops: one of the crew, or one that waits and helps meanwhile.
struct Runner {
  Seat* seat = nullptr;       // held; null: runs nothing
  Seat* last_seat = nullptr;
  OpNode* current = nullptr;  // the op whose end hands its successors to this runner
  ReadyList successors{};
  bool crew = false;
  int depth = 0;              // ops that wait below the one it runs
  bool look_outside = false;  // at others' queues before its own, once
  std::uint32_t ops = 0;      // run so far
  int slow = 0;               // ticks in a row in which it was too slow to be alone
  int trial = 0;              // below zero: ticks until it tries again to be alone
  std::uint32_t together = 0;  // nanoseconds an op took with all of them
  std::uint64_t ticked = 0;   // nanoseconds, when it last looked at the clock
  const std::atomic<std::uint32_t>* stop = nullptr;  // stops looking for work when this is no longer
  std::uint32_t stop_unless = 0;                     // that
};

std::uint64_t nanoseconds();  // on a clock that never jumps

class ThreadedCore final : public EngineCore {
 public:
  explicit ThreadedCore(const EngineOptions& engine_options);

  int workers() const override { return seats_.size(); }
  void submit(OpNode* op) override;
  void wait(OpNode* wait_op) override;
  void wait_all() override;
  void finish(OpNode* op, std::shared_ptr<const Failure>&& failure) noexcept override;
  void drop(VarState& var) noexcept override;
  void enter_submitted() override;
  bool has_submitted(const VarState& var) const override;
  void stop() noexcept override;
  int worker_now() const override {
    const Runner* runner = this_runner();
    return runner ? runner->seat->index : -1;
  }
  void expect_help() override;
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

  // threaded.cc: from submission to end
  int drain(ReadyList& ready);
  void schedule(ReadyList& ready);
  OpNode* run(OpNode* op, Runner& self);
  void tick(Runner& self);
  void consider_short(Runner& self, std::uint32_t each);

  // threaded_search.cc: who looks for work, where and for how long
  bool take_seat(Runner& self);
  void release_seat(Runner& self);
  void work();
  void run_until_idle(Runner& self);
  void run_from(OpNode* op, Runner& self);
  bool step_down(OpNode* op, Runner& self);
  OpNode* search(Runner& self);
  OpNode* find(Runner& self);
  OpNode* take_drained(Runner& self);
  OpNode* take_from(ReadyQueue& queue, Runner& self);
  bool join_loop(Runner& self);
  void be_short(Runner& self);
  void leave_short(Runner& self);
  bool is_short(const Runner& self) const {
    return short_runner_.load(std::memory_order_relaxed) == &self;
  }
  bool has_work() const;
  bool can_work() const;
  Nap look_around(std::uint64_t& progress, int& idle);

  // threaded_wait.cc: threads that wait
  void help(const WaitState& state, VarState& var);
  void run_needed(ReadyList& ready, const VarState& var, Runner& self);
  void help_all(std::uint32_t signal);
  std::uint8_t next_epoch();
  bool balanced(std::uint8_t epoch);
  void check_balance();
  void enter_some();  // threaded_pending.cc

  struct Mine {
    const ThreadedCore* core = nullptr;
    Runner* runner = nullptr;
  };
  static constinit thread_local Mine mine;

  // While one lives, the calling thread is `runner`.
  class ActingAs {
   public:
    ActingAs(const ThreadedCore* core, Runner* runner) : outer_(mine) { mine = {core, runner}; }
    ~ActingAs() { mine = outer_; }
    ActingAs(const ActingAs&) = delete;
    ActingAs& operator=(const ActingAs&) = delete;

   private:
    Mine outer_;
  };

  Submissions submissions_;
  std::uint64_t sequence_ = 0;                // guarded by the lock of submissions_, like:
  std::uint64_t entered_[2] = {0, 0};         // ops of users, of even and odd epochs
  std::uint8_t epoch_ = 0;                    // 0 or 1, of ops that are entered now: wait_all waits for those of the other
  std::atomic<std::uint64_t> ended_elsewhere_[2] = {0, 0};  // ops that ended on a thread without a seat
  Seats seats_;
  Arena arena_;
  ReadyQueue elsewhere_;  // made ready by threads without a seat
  Regions regions_;
  Parking parking_;
  std::atomic<Runner*> short_runner_{nullptr};  // its ops are so short that nobody else should run any
  std::atomic<bool> stopping_{false};
  std::mutex wait_all_mutex_;  // held by the one thread in wait_all
  std::atomic<std::uint8_t> awaited_{1};  // the epoch that wait_all waits for
  std::atomic<int> balance_waiters_{0};
  std::atomic<std::uint32_t> balance_signal_{0};
  Crew crew_;  // last: its threads use all of the above
};

}  // namespace heddle::detail
