#include "stream/fence.h"

#include <deque>
#include <utility>

#include "stream/event_pool.h"

namespace heddle::detail {
namespace {

// Calls fn, or queues it if an earlier fn is running on this thread. A fence that is done may complete another one, and
// so on without bound: calls are queued, because nested ones would overflow the stack.
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

// If the fence is not done, stores fn and returns true.
bool FenceState::calls_back(std::function<void()>& fn) {
  std::lock_guard guard(mutex_);
  if (done()) return false;
  waiters_.push_back(std::move(fn));
  return true;
}

void when_done(Fence&& fence, std::function<void()> fn) {
  if (Fence own = std::move(fence); own->calls_back(fn)) return;
  fn();
}

// Called when one of the conditions under which the fence is done holds. All callers share `held`; the last
// call empties it.
void FenceState::arrive(Fence& held) {
  // acq_rel: the thread that calls complete_fence() sees what the others wrote, and that they no longer use `held`.
  if (held->remaining_.fetch_sub(1, std::memory_order_acq_rel) == 1)
    complete_fence(std::exchange(held, nullptr));
}

void FenceState::complete_fence(Fence self) {
  {
    std::vector<FailurePtr> inherited;
    for (const Fence& read : self->reads_) {
      if (read->failure()) inherited.push_back(read->failure());
    }
    self->reads_.clear();  // without this, a fence would keep all earlier ones alive
    self->failure_ = std::exchange(self->outcome_, nullptr)(std::exchange(self->own_, nullptr), inherited);
  }
  self->pool_->give_back(self->event_);
  std::vector<std::function<void()>> waiters;
  {
    std::lock_guard guard(self->mutex_);
    self->done_->store(true, std::memory_order_release);
    waiters.swap(self->waiters_);
  }
  self.reset();
  for (std::function<void()>& waiter : waiters) call_in_line(std::move(waiter));
}

void when_all_done(std::vector<Dependency>&& dependencies, std::function<void()> fn) {
  struct Countdown {
    std::atomic<std::size_t> left;
    std::function<void()> fn;
  };
  auto countdown = std::make_shared<Countdown>(dependencies.size() + 1, std::move(fn));
  auto count = [countdown] {
    if (countdown->left.fetch_sub(1, std::memory_order_acq_rel) == 1) countdown->fn();
  };
  for (const Dependency& dependency : std::exchange(dependencies, {})) dependency.fence->when_done(count);
  count();
}

}  // namespace heddle::detail
