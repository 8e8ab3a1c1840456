// One op at a time, but any ready one, picked by seed: schedules that a loaded machine would show once a year.
// The ops of a program pushed by one thread run in an order that depends on the seed alone.
#include <condition_variable>
#include <mutex>
#include <random>
#include <vector>

#include "core.h"
#include "tracker.h"

namespace heddle::detail {
namespace {

class FuzzCore final : public EngineCore {
 public:
  explicit FuzzCore(const EngineOptions& engine_options)
      : EngineCore(engine_options), random_(engine_options.seed) {}

  // Some pushes run a few ready ops, most run none: both a far ahead and a hard pressed pusher occur.
  void submit(OpNode* op) override {
    std::unique_lock lock(mutex_);
    if (op->kind == OpKind::user) ++unfinished_;
    add_ready(op);
    if (running_) return;
    if (random_() % 4 != 0) return;
    for (auto runs = random_() % 8; runs > 0 && !ready_.empty(); --runs) run(pick(), lock);
  }

  void wait(OpNode* wait_op) override {
    std::shared_ptr<WaitState> state = wait_op->wait;
    OpNode* const current = inside_op() ? this_thread_state().op : nullptr;
    std::unique_lock lock(mutex_);
    wait_op->resumes = current;
    add_ready(wait_op);
    if (current && !state->done && depends(*state, *current, true)) {
      throw WouldDeadlock("op '" + std::string(current->name) +
                          "' waits for a var that can only be ready after that op has ended");
    }
    while (!state->done) {
      // Inside an op only what the wait needs may run on top of it: anything else might wait for the op below.
      OpNode* op = current ? pick_needed(*state) : running_ ? nullptr : pick();
      if (op) {
        run(op, lock, current);
      } else {
        progress_.wait(lock);
      }
    }
  }

  void wait_all() override {
    if (inside_op()) throw WouldDeadlock("wait_all inside an op would wait for that op itself");
    std::unique_lock lock(mutex_);
    while (unfinished_ > 0) {
      OpNode* op = running_ ? nullptr : pick();
      if (op) {
        run(op, lock);
      } else {
        progress_.wait(lock);
      }
    }
  }

  void finish(OpNode* op, std::exception_ptr error) noexcept override {
    ReadyList ready;
    settle(op, std::move(error), ready);
    std::lock_guard guard(mutex_);
    while (!ready.empty()) ready_.push_back(ready.pop_front());
    --unfinished_;
    progress_.notify_all();
  }

  void stop() noexcept override {}

 private:
  void add_ready(OpNode* op) {
    ReadyList ready;
    enter_op(op, ready);
    while (!ready.empty()) ready_.push_back(ready.pop_front());
  }

  OpNode* take(std::size_t at) {
    OpNode* op = ready_[at];
    ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(at));
    return op;
  }

  OpNode* pick() { return ready_.empty() ? nullptr : take(random_() % ready_.size()); }

  OpNode* pick_needed(const WaitState& state) {
    std::vector<std::size_t> needed;
    for (std::size_t i = 0; i < ready_.size(); ++i) {
      if (depends(state, *ready_[i], false)) needed.push_back(i);
    }
    return needed.empty() ? nullptr : take(needed[random_() % needed.size()]);
  }

  void run(OpNode* op, std::unique_lock<std::mutex>& lock, OpNode* below = nullptr) {
    const bool nested = std::exchange(running_, true);
    op->resumes = below;  // the op below cannot go on before this one ends
    lock.unlock();
    execute(op, 0);
    lock.lock();
    running_ = nested;
    progress_.notify_all();
  }

  std::mutex mutex_;  // guards all below; a var's lock may be taken inside
  std::condition_variable progress_;
  std::mt19937_64 random_;
  std::vector<OpNode*> ready_;
  std::int64_t unfinished_ = 0;  // ops of users
  bool running_ = false;         // some thread runs ops
};

}  // namespace

EngineCore* make_fuzz_core(const EngineOptions& options) { return new FuzzCore(options); }

}  // namespace heddle::detail
