#include "communicator/progress_thread.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <heddle/usable_cores.h>

#include "core/core_share.h"

namespace heddle::comm_detail {
namespace {

using std::chrono::microseconds;

constexpr microseconds kSpinTime{50};
constexpr int kPollAfter = 3;      // calls in a row run by waiting threads, after which the thread polls
constexpr int kMaxIdlePolls = 10;  // polls in a row without work, after which the thread waits to be notified
// On a core that the thread shares, each poll takes 10 us from a thread that computes or runs calls.
constexpr microseconds kPollInterval{200}, kPollIntervalOnSharedCore{3000};

microseconds poll_interval(int ranks_here) {
  const UsableCores cores = usable_cores();
  if (ranks_share_cores(ranks_here))
    return std::max(kPollIntervalOnSharedCore, kPollInterval * (ranks_here / cores.count()));
  return cores.by_affinity == 1 ? kPollIntervalOnSharedCore : kPollInterval;
}

// Completes the call's op. A call whose op was skipped has no completion.
void complete(Call& call, const std::exception_ptr& error) {
  std::optional<Completion> completion = std::exchange(call.completion, std::nullopt);
  if (!completion) return;
  error ? completion->fail(error) : completion->done();
}

}  // namespace

ProgressThread::ProgressThread(CallQueue& queue, CallRunner& runner, int ranks_here)
    : queue_(queue),
      runner_(runner),
      poll_interval_(poll_interval(ranks_here)),
      destroyed_(std::make_exception_ptr(
          CommAborted("the communicator was destroyed before this call could begin"))),
      thread_([this] { loop(); }) {}

void ProgressThread::join() {
  queue_.notify();
  thread_.join();
}

void ProgressThread::refuse(Call& call) const { complete(call, destroyed_); }

void ProgressThread::loop() {
  CallQueue::Lock lock = queue_.lock();
  for (await_work(lock); queue_.has_ready_call(lock); await_work(lock)) {
    run_by_waiters_ = 0;
    run_next(lock);
  }
  for (const std::shared_ptr<Call>& call : queue_.stop(lock)) refuse(*call);
}

// If a notification finds no work, a waiting thread has run the call. The number of calls that waiting
// threads ran may now be enough to begin polling.
void ProgressThread::await_work(CallQueue::Lock& lock) {
  if (poll(lock) || spin(lock)) return;
  while (!queue_.has_work(lock)) {
    queue_.wait(lock);
    if (!queue_.has_work(lock) && poll(lock)) return;
  }
}

// Polls for work while calls are run by waiting threads. Returns whether there is work.
bool ProgressThread::poll(CallQueue::Lock& lock) {
  for (int idle = 0; run_by_waiters_ >= kPollAfter && idle < kMaxIdlePolls; ++idle) {
    const int before = run_by_waiters_;
    queue_.poll(lock, poll_interval_);
    if (queue_.has_work(lock)) return true;
    if (run_by_waiters_ != before) idle = 0;
  }
  return false;
}

// Looks for work for a while before the thread sleeps, since waking up takes as long as many small calls.
// Lets other threads have the core meanwhile. Returns whether there is work.
bool ProgressThread::spin(CallQueue::Lock& lock) {
  for (const auto end = std::chrono::steady_clock::now() + kSpinTime;
       std::chrono::steady_clock::now() < end;) {
    if (queue_.has_work(lock)) return true;
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  return queue_.has_work(lock);
}

void ProgressThread::run_next(CallQueue::Lock& lock) {
  std::vector<std::shared_ptr<Call>> calls = queue_.take(lock);
  lock.unlock();
  const std::exception_ptr error = runner_.run(calls);
  queue_.end(calls);
  for (const std::shared_ptr<Call>& call : calls) complete(*call, error);
  calls.clear();  // releases arrays, which must not happen under the lock
  lock.lock();
}

void ProgressThread::run_calls_for(const Var& var, const std::atomic<std::uint32_t>& over) {
  CallQueue::Lock lock = queue_.lock();
  const std::uint64_t last = queue_.pushed(lock);
  const auto may_run_next = [&] {
    return !over.load(std::memory_order_acquire) && queue_.ended(lock) < last &&
           queue_.has_ready_call(lock) && queue_.is_needed_for(lock, var);
  };
  if (may_run_next()) ++run_by_waiters_;
  while (may_run_next()) run_next(lock);
}

}  // namespace heddle::comm_detail
