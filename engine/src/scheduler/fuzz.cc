// Runs one op at a time: any ready one, picked at random by the seed. So schedules occur that are rare on a real machine. The
// ops of a program that one thread pushes run in an order that depends on the seed alone. Stepped host streams are advanced by
// the same random numbers; streams of cpu(i) that the engine makes are stepped.
#include <condition_variable>
#include <mutex>
#include <random>

#include "core/core.h"
#include "diagnostics/pending.h"
#include "op/tracker.h"
#include "scheduler/fuzz_ops.h"
#include "stream/streams.h"

namespace heddle::detail {
namespace {

class FuzzScheduler final : public OpScheduler {
 public:
  explicit FuzzScheduler(EngineCore& core) : OpScheduler(core), random_(core.options.seed) {}

  // Some pushes run a few ready ops, most run none, so that the pushing thread is sometimes far ahead of the ops.
  void submit(OpNode* op) override {
    std::unique_lock lock(mutex_);
    const OpNode* parent = core_.current_op();
    op->epoch = parent ? parent->epoch : epoch_;
    if (op->kind == OpKind::user) ++unfinished_[op->epoch];
    add_ready(op, lock);
    if (parent) notify();  // a waiting thread has to run the op: inside an op a push runs none
    if (running_ || parent) return;
    if (random_() % 4 != 0) return;
    for (auto runs = random_() % 8; runs > 0 && act(lock); --runs) {
    }
  }

  void wait(OpNode* wait_op) override { wait_until(wait_op, kNever); }

  bool wait_until(OpNode* wait_op, Deadline deadline) override {
    std::shared_ptr<WaitState> state = wait_op->extra->wait;
    OpNode* const current = core_.current_op();
    state->resumes = current;
    std::unique_lock lock(mutex_);
    WaitInside needs(ops_, wait_op->accesses()[0].var, current);
    add_ready(wait_op, lock);
    if (!state->done && needs.ops.suspended) {
      give_up(*state);
      throw WouldDeadlock("op '" + std::string(core_.current_function()->name) +
                          "' waits for a var that can only be ready after that op has ended");
    }
    while (!state->done) {
      if (deadline != kNever && std::chrono::steady_clock::now() >= deadline) return give_up(*state), false;
      const bool acted = current ? act(lock, &needs.ops) : !running_ && act(lock);
      if (!acted && !state->done) await_progress(lock, deadline);
    }
    return true;
  }

  void wait_all() override {
    if (core_.current_op()) throw WouldDeadlock("wait_all inside an op would wait for that op itself");
    std::lock_guard one(wait_all_mutex_);
    std::unique_lock lock(mutex_);
    const std::uint8_t epoch = std::exchange(epoch_, epoch_ ^ 1);
    while (unfinished_[epoch] > 0) {
      const bool acted = !running_ && act(lock);
      if (!acted && unfinished_[epoch] > 0) progress_.wait(lock);
    }
  }

  void drop(VarState& var) noexcept override {
    if (!core_.forked()) {
      std::lock_guard guard(mutex_);
      ops_.forget(var);
    }
    delete_var(var);
  }

  void release_op(OpNode* op, FailurePtr&& failure, ReadyList& ready) noexcept override {
    const std::uint64_t number = op->sequence;
    OpScheduler::release_op(op, std::move(failure), ready);
    std::lock_guard guard(mutex_);
    ops_.end(number);
  }

  void completed_elsewhere(std::uint8_t epoch, ReadyList& ready) noexcept override {
    std::lock_guard guard(mutex_);
    completed(epoch, ready);
  }

  void issued(OpNode* op) noexcept override {
    const std::uint64_t number = op->sequence;
    ReadyList ready;
    core_.release_vars(op, nullptr, ready);
    std::lock_guard guard(mutex_);
    ops_.end(number);
    add(ready);
  }

  void stream_work_done(OpNode* op) noexcept override {
    const std::uint8_t epoch = op->epoch;
    free_op(op);
    std::lock_guard guard(mutex_);
    --unfinished_[epoch];
    notify();
  }

  void resume(OpNode* op) noexcept override {
    std::lock_guard guard(mutex_);
    ops_.add_ready(op);
    notify();
  }

  void wake_waiters() noexcept override {
    std::lock_guard guard(mutex_);
    notify();
  }

  std::unique_ptr<Stream> new_stream(Device device, Lane lane) override {
    if (device.kind != DeviceKind::cpu) return OpScheduler::new_stream(device, lane);
    std::lock_guard guard(mutex_);
    const HostStreamOptions of_seed{.seed = random_(), .most_delay = 2, .stepped = true};
    return std::make_unique<HostStream>(device, lane, of_seed);
  }

  void stop() noexcept override {
    while (unfinished() > 0) wait_all();
  }

  std::int64_t in_flight() override { return unfinished(); }

  void visit_pending(Pending& pending) override {
    std::lock_guard guard(mutex_);
    for (const OpNode* op : ops_.ready()) pending.see(*op, PendingState::ready);
  }

 private:
  // While a WaitInside lives, the calling thread waits for `var` in the op `inside`. `inside` null: outside
  // of ops.
  struct WaitInside {
    WaitInside(FuzzOps& all, const VarState* var, const OpNode* inside) : all_(all) {
      if (inside) all_.begin_wait(*var, *inside, ops);
    }
    ~WaitInside() { all_.end_wait(ops); }
    WaitInside(const WaitInside&) = delete;
    WaitInside& operator=(const WaitInside&) = delete;
    NeededOps ops;

   private:
    FuzzOps& all_;
  };

  void await_progress(std::unique_lock<std::mutex>& lock, Deadline deadline) {
    if (deadline == kNever) {
      progress_.wait(lock);
    } else {
      progress_.wait_until(lock, deadline);
    }
  }

  void give_up(WaitState& state) {
    const std::lock_guard guard(core_.waits.mutex);
    core_.waits.give_up(state);
  }

  std::int64_t unfinished() {
    std::lock_guard guard(mutex_);
    return unfinished_[0] + unfinished_[1];
  }

  void notify() {
    ++notifications_;
    progress_.notify_all();
  }

  void completed(std::uint8_t epoch, ReadyList& ready) {
    add(ready);
    --unfinished_[epoch];
    notify();
  }

  // Adds ops to the ready ones. The calling thread may be one that runs no ops, so waiting threads are
  // notified.
  void add(ReadyList& ready) {
    if (!ready.empty()) notify();
    while (!ready.empty()) ops_.add_ready(ready.pop_front());
  }

  void add_ready(OpNode* op, std::unique_lock<std::mutex>& lock) {
    op->sequence = std::exchange(sequence_, sequence_ + op->numbers());
    const OpKind kind = op->kind;  // read now: the op may run and be freed once it is entered
    if (kind == OpKind::user) ops_.enter(*op);
    if (!enter(*op)) return;
    ReadyList ready;
    if (kind == OpKind::user) {
      ready.push_back(op);
    } else {
      lock.unlock();  // run_internal() may call wake_waiters()
      core_.run_internal(op, ready);
      lock.lock();
    }
    add(ready);
  }

  // One random choice: runs a ready op, or advances a stream. False if neither is possible. A wait inside an op runs an
  // op that the wait needs, if one is ready, since any other op on top of the waiting one might wait for that one.
  // Otherwise it runs any op: the wait may need a side effect that the engine does not know of.
  bool act(std::unique_lock<std::mutex>& lock, NeededOps* needed = nullptr) {
    const std::size_t streams = stepped();
    const std::size_t choices = ops_.ready().size() + streams;
    if (streams > 0 && random_() % choices >= ops_.ready().size() && step(lock)) return true;
    OpNode* op = needed ? ops_.take_needed(*needed, random_) : nullptr;
    if (!op && !ops_.ready().empty()) op = ops_.take(random_() % ops_.ready().size());
    if (!op) {
      // step() releases the lock: other threads may notify meanwhile.
      const std::uint64_t before = notifications_;
      return streams > 0 && (step(lock) || notifications_ != before);
    }
    run(op, lock);
    return true;
  }

  std::size_t stepped() const {
    const Streams* all = core_.stream_ops.streams();
    return all ? all->stepped() : 0;
  }

  // Advances one stream. For a while the same stream comes first: if all streams were advanced evenly, the
  // work of one would never be far behind that of another. The work of a stream belongs to no op.
  bool step(std::unique_lock<std::mutex>& lock) {
    const bool nested = std::exchange(running_, true);
    if (random_() % 32 == 0) first_stream_ = random_() % stepped();
    const std::size_t first = first_stream_;
    lock.unlock();
    bool moved = false;
    {
      const InsideOp outside(&core_, nullptr, -1);
      moved = core_.stream_ops.streams()->step(first);
    }
    lock.lock();
    running_ = nested;
    if (moved) notify();
    return moved;
  }

  // Runs ops until the budget has room, since perhaps no other thread runs them.
  void await_budget(Budget& budget, std::size_t bytes) override {
    std::unique_lock lock(mutex_);
    notify();  // this thread's failed try_acquire() may have made that of a waiting thread fail
    for (std::uint64_t before = notifications_; !budget.try_acquire(bytes); before = notifications_) {
      const bool acted = !running_ && act(lock);
      if (!acted && notifications_ == before)
        progress_.wait(lock);  // room may have come while a stream was advanced
    }
  }

  void budget_released() noexcept override {
    std::lock_guard guard(mutex_);
    notify();
  }

  void run(OpNode* op, std::unique_lock<std::mutex>& lock) {
    const bool nested = std::exchange(running_, true);
    const std::uint64_t number = op->sequence;
    ops_.called(*op);
    lock.unlock();
    note_thread_end();
    const std::uint8_t epoch = op->epoch;
    ReadyList ready;
    const bool has_completed = core_.run(op, 0, ready);
    lock.lock();
    ops_.returned(number);
    if (has_completed) completed(epoch, ready);
    running_ = nested;
    notify();
  }

  std::mutex wait_all_mutex_;  // held by the one thread in wait_all; mutex_ may be locked inside
  std::mutex mutex_;           // guards all below; a var's lock may be taken inside
  std::condition_variable progress_;
  std::uint64_t notifications_ = 0;  // how often progress_ was notified
  std::mt19937_64 random_;
  std::uint64_t sequence_ = 0;
  FuzzOps ops_;
  std::size_t first_stream_ = 0;
  std::uint8_t epoch_ = 0;  // epoch of new ops, 0 or 1; wait_all flips it and waits for the other epoch
  std::int64_t unfinished_[2] = {0, 0};  // users' ops that have not ended, by epoch
  bool running_ = false;                 // whether a thread runs ops
};

}  // namespace

std::unique_ptr<OpScheduler> make_fuzz_scheduler(EngineCore& core) {
  return std::make_unique<FuzzScheduler>(core);
}

}  // namespace heddle::detail
