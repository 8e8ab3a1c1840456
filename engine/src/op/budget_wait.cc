// Waits for room with a time limit. A file of its own, since the models of tests/models, which have no clock,
// leave it out.
#include <algorithm>
#include <chrono>
#include <utility>

#include "op/budget.h"

namespace heddle::detail {

void Budget::wait_briefly(std::condition_variable& wake, std::unique_lock<std::mutex>& lock) {
  wake.wait_for(lock, std::chrono::microseconds(100));
}

void Budget::acquire_interruptibly(std::size_t bytes, void (*check)()) {
  if (try_acquire(bytes)) return;
  std::condition_variable wake;
  std::unique_lock lock(mutex_);
  queue_.push_back(&wake);
  waiting_.fetch_add(1, std::memory_order_seq_cst);
  const auto leave = [&] {
    queue_.erase(std::find(queue_.begin(), queue_.end(), &wake));
    waiting_.fetch_sub(1, std::memory_order_seq_cst);
    if (!queue_.empty()) queue_.front()->notify_one();
  };
  bool napped = false;
  while (queue_.front() != &wake || !fits(bytes)) {
    if (queue_.front() == &wake && !std::exchange(napped, true)) {
      nap(wake, lock);
      continue;
    }
    if (wake.wait_for(lock, std::chrono::milliseconds(50)) == std::cv_status::no_timeout) continue;
    lock.unlock();
    try {
      check();
    } catch (...) {
      lock.lock();
      leave();
      throw;
    }
    lock.lock();
  }
  leave();
}

}  // namespace heddle::detail
