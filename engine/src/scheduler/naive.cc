// The oracle of the other schedulers: every op runs inside its push, in push order. Nothing is queued on vars, and no two ops
// run at the same time.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "core/core.h"
#include "stream/fence_set.h"
#include "stream/stream_work.h"
#include "stream/streams.h"

namespace heddle::detail {
namespace {

// One thread at a time pushes. An op that is pushed inside an op runs when that op has ended: so ops run in
// push order. The push of an asynchronous op returns when its Completion was called. So this scheduler cannot
// run a program in which only a later push leads to that call.
class NaiveScheduler final : public OpScheduler {
 public:
  using OpScheduler::OpScheduler;

  void submit(OpNode* op) override {
    if (core_.current_op()) return queue(op);
    std::unique_lock guard(mutex_, std::defer_lock);
    if (!InStreamWork::here()) guard.lock();
    // In work of a stream only try_lock is used, since the mutex's holder may be waiting for this very work.
    while (!guard.owns_lock() && !guard.try_lock()) {
      if (nest(op)) return;
      std::this_thread::yield();
    }
    note_thread_end();
    queue(op);
    while (!nested_.empty()) {
      OpNode* next = nested_.front();
      nested_.pop_front();
      run(next);
    }
  }

  void wait(OpNode* wait_op) override {
    VarState* var = wait_op->accesses()[0].var;
    std::shared_ptr<WaitState> state = wait_op->extra->wait;
    free_op(wait_op);
    if (core_.current_op()) {
      run_nested_before(var);
      state->poison = var->poison;
    } else {
      std::lock_guard guard(mutex_);
      state->poison = var->poison;
    }
  }

  bool wait_until(OpNode* wait_op, Deadline deadline) override {
    if (core_.current_op()) return wait(wait_op), true;
    std::unique_lock guard(mutex_, std::defer_lock);
    while (!guard.try_lock()) {  // a pushing thread holds the mutex until its op has ended
      if (std::chrono::steady_clock::now() >= deadline) return free_op(wait_op), false;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    wait_op->extra->wait->poison = wait_op->accesses()[0].var->poison;
    free_op(wait_op);
    return true;
  }

  void wait_all() override {
    if (core_.current_op()) throw WouldDeadlock("wait_all inside an op would wait for that op itself");
    std::lock_guard guard(mutex_);  // a pushing thread holds the mutex until its op has ended
  }

  // Ops are not queued on vars, so none becomes ready. run() frees the op.
  void release_op(OpNode* op, FailurePtr&& failure, ReadyList&) noexcept override {
    for (std::uint32_t i = 0; i < op->access_count; ++i) {
      VarState& var = *op->accesses()[i].var;
      std::lock_guard guard(var.lock);  // error_of() reads the poison at any time
      const AccessNode& access = op->accesses()[i];
      if (!access.mutates) continue;
      if (!access.keeps_poison) var.poison = failure;
      if (FenceSet* fences = var.fences.load(std::memory_order_relaxed)) fences->clear();
    }
    failure.reset();
    mark_completed(op);
  }

  void completed_elsewhere(std::uint8_t, ReadyList&) noexcept override {}

  void stop() noexcept override {}

  // The ops that were pushed inside others are not counted before they run.
  std::int64_t in_flight() override { return under_way_.load(std::memory_order_relaxed); }

  void issued(OpNode*) noexcept override {}  // nothing to do: the next op runs when this one has ended
  void stream_work_done(OpNode* op) noexcept override {
    for (std::uint32_t i = 0; i < op->access_count; ++i) {
      const AccessNode& access = op->accesses()[i];
      // A launch keeps the vars' poison, and has fences on those that its ops on streams have used.
      FenceSet* const fences = access.mutates ? access.var->fences.load(std::memory_order_acquire) : nullptr;
      if (!fences) continue;
      FailurePtr failure = fences->failure();
      if (failure || !access.keeps_poison) {
        std::lock_guard guard(access.var->lock);  // error_of() reads the poison at any time
        access.var->poison.swap(failure);
      }
      fences->clear();
    }
    mark_completed(op);
  }
  void resume(OpNode* op) noexcept override {
    ReadyList none;
    core_.run(op, 0, none);
  }

  void await(const std::function<bool()>& over) override {
    Streams* const all = core_.stream_ops.streams();
    while (all && !over() && all->step(0)) {
    }
    std::unique_lock lock(ended_mutex_);
    awaits_ = true;
    ended_.wait(lock, over);
    awaits_ = false;
  }

  void wake_waiters() noexcept override {
    std::lock_guard guard(ended_mutex_);
    ended_.notify_all();
  }

  // A stepped stream, so that its work runs inside the push like everything else.
  std::unique_ptr<Stream> new_stream(Device device, Lane lane) override {
    if (device.kind != DeviceKind::cpu) return OpScheduler::new_stream(device, lane);
    return std::make_unique<HostStream>(device, lane, HostStreamOptions{.stepped = true});
  }

 private:
  void mark_completed(OpNode* op) noexcept {
    std::lock_guard guard(ended_mutex_);
    op->waiting = 0;
    ended_.notify_all();
  }

  void queue(OpNode* op) {
    for (std::uint32_t i = 0; i < op->access_count; ++i) detail::retain(op->accesses()[i].var);
    op->sequence = sequence_.fetch_add(op->numbers(), std::memory_order_relaxed);
    nested_.push_back(op);
  }

  // An op that the work of a stream pushes is nested in the op that waits for that work. False if none waits.
  bool nest(OpNode* op) {
    std::lock_guard guard(ended_mutex_);
    if (awaits_) queue(op);
    return awaits_;
  }

  void run(OpNode* op) {
    op->waiting = 1;
    under_way_.fetch_add(1, std::memory_order_relaxed);
    running_.push_back(op);
    ReadyList none;  // stays empty, since ops are not queued on vars
    core_.run(op, 0, none);
    move_streams(*op);
    {
      std::unique_lock lock(ended_mutex_);
      awaits_ = true;
      ended_.wait(lock, [&] { return op->waiting == 0; });
      awaits_ = false;
    }
    running_.pop_back();
    under_way_.fetch_sub(1, std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < op->access_count; ++i) detail::release(op->accesses()[i].var);
    free_op(op);
  }

  // Advances the streams until op has ended. Ops that their work pushes are nested in op, as by nest().
  void move_streams(OpNode& op) {
    Streams* const all = core_.stream_ops.streams();
    if (!all) return;
    const InsideOp inside(&core_, &op, 0);
    while (op.waiting != 0 && all->step(0)) {
    }
  }

  static bool conflict(const OpNode& a, const OpNode& b) {
    return std::any_of(a.accesses(), a.accesses() + a.access_count, [&](const AccessNode& x) {
      return std::any_of(b.accesses(), b.accesses() + b.access_count,
                         [&](const AccessNode& y) { return x.var == y.var && (x.mutates || y.mutates); });
    });
  }

  static bool mutates(const OpNode& op, const VarState* var) {
    return std::any_of(op.accesses(), op.accesses() + op.access_count,
                       [&](const AccessNode& access) { return access.var == var && access.mutates; });
  }

  // Called when an op waits for var: runs the nested ops that need not come after a running op, nor after a
  // nested op that stays queued. Throws WouldDeadlock if an op that mutates var is left.
  void run_nested_before(VarState* var) {
    std::vector<OpNode*> before = running_;
    for (auto at = nested_.begin(); at != nested_.end();) {
      OpNode* op = *at;
      if (std::any_of(before.begin(), before.end(), [&](OpNode* other) { return conflict(*op, *other); })) {
        before.push_back(op);
        ++at;
      } else {
        nested_.erase(at);
        run(op);  // run() may change nested_
        before = running_;
        at = nested_.begin();
      }
    }
    if (std::any_of(before.begin(), before.end(), [&](OpNode* op) { return mutates(*op, var); })) {
      throw WouldDeadlock("op '" + std::string(core_.current_function()->name) +
                          "' waits for a var that can only be ready after that op has ended");
    }
  }

  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<std::int64_t> under_way_{0};
  std::mutex mutex_;              // held while any op runs; guards nested_ and running_
  std::deque<OpNode*> nested_;    // ops pushed by running ops, or about to run
  std::vector<OpNode*> running_;  // ops that run, the innermost last
  std::mutex ended_mutex_;        // guards awaits_ and OpNode::waiting, which here is 0 once the op has ended
  // Whether the holder of mutex_ waits for an op; while it does, nest() may use nested_.
  bool awaits_ = false;
  std::condition_variable ended_;
};

}  // namespace

std::unique_ptr<OpScheduler> make_naive_scheduler(EngineCore& core) {
  return std::make_unique<NaiveScheduler>(core);
}

}  // namespace heddle::detail
