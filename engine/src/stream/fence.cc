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

void FenceState::find_failures() {
  VarFailures of_vars;
  for (const Dependency& read :
       std::exchange(reads_, {})) {  // a fence that kept them would keep all earlier ones alive
    if (FailurePtr failure = read.fence->failure(read.var))
      of_vars.emplace_back(read.var, std::move(failure));
  }
  std::exception_ptr own = std::exchange(own_, nullptr);
  if (outcome_of_vars_) {
    failures_of_vars_ = std::exchange(outcome_of_vars_, nullptr)(std::move(own), of_vars);
    return;
  }
  std::vector<FailurePtr> inherited;
  for (auto& [var, failure] : std::exchange(of_vars, {})) inherited.push_back(std::move(failure));
  failure_ = std::exchange(outcome_, nullptr)(std::move(own), inherited);
}

FailurePtr FenceState::failure(const void* var) const {
  if (failures_of_vars_.empty()) [[likely]]
    return failure_;
  for (const auto& [of, failure] : failures_of_vars_) {
    if (of == var) return failure;
  }
  return nullptr;
}

Fence FenceState::done_with(const FenceState& fence, FailurePtr failure) {
  auto made = std::make_shared<FenceState>(*fence.stream_, fence.ticket_, nullptr);
  made->failure_ = std::move(failure);
  made->done_->store(true, std::memory_order_release);
  return made;
}

void FenceState::complete_fence(Fence self) {
  self->find_failures();
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
