#include "fence.h"

#include <deque>

#include "event_pool.h"

namespace heddle::detail {
namespace {

// One fence that gets done may let another one be done, and so on for as long as the program is: the calls line up
// instead of nesting.
void call_in_line(std::function<void()> fn) {
  thread_local std::deque<std::function<void()>>* line = nullptr;
  if (line) {
    line->push_back(std::move(fn));
    return;
  }
  std::deque<std::function<void()>> own;
  line = &own;
  fn();
  for (; !own.empty(); own.pop_front()) own.front()();
  line = nullptr;
}

}  // namespace

void FenceState::when_done(std::function<void()> fn) {
  {
    std::lock_guard guard(mutex_);
    if (!done()) {
      waiters_.push_back(std::move(fn));
      return;
    }
  }
  fn();
}

void FenceState::arrive() {
  // acq_rel: who settles sees what all the others brought.
  if (to_come_.fetch_sub(1, std::memory_order_acq_rel) == 1) settle();
}

void FenceState::settle() {
  std::vector<FailurePtr> inherited;
  for (const Fence& read : reads_) {
    if (read->failure()) inherited.push_back(read->failure());
  }
  reads_.clear();  // fences must not keep all their history alive
  failure_ = std::exchange(outcome_, nullptr)(std::exchange(own_, nullptr), inherited);
  pool_->give_back(event_);
  std::vector<std::function<void()>> waiters;
  {
    std::lock_guard guard(mutex_);
    done_.store(true, std::memory_order_release);
    waiters.swap(waiters_);
  }
  for (std::function<void()>& waiter : waiters) call_in_line(std::move(waiter));
}

void when_all_done(const std::vector<Dependency>& dependencies, std::function<void()> fn) {
  struct Countdown {
    std::atomic<std::size_t> left;
    std::function<void()> fn;
  };
  auto countdown = std::make_shared<Countdown>(dependencies.size() + 1, std::move(fn));
  auto count = [countdown] {
    if (countdown->left.fetch_sub(1, std::memory_order_acq_rel) == 1) countdown->fn();
  };
  for (const Dependency& dependency : dependencies) dependency.fence->when_done(count);
  count();
}

}  // namespace heddle::detail
