// Back-pressure: how many ops, and how much of what they hold, may be in flight in an engine that has a bound.
//
// Never is more admitted than the bound, but for what must not wait. Threads that wait are served in the order in which
// they came, so that a large op is not starved by small ones. No wake-up is lost: a thread that waits (1) says so, (2) looks
// for room; who gives room back (3) does so, (4) looks for waiting threads. All are seq_cst: (2) sees (3), or (4) sees (1);
// and then the notification comes behind the mutex that (2) held until it slept.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>

namespace heddle::detail {

class Budget {
 public:
  // 0: unbounded.
  Budget(std::size_t max_ops, std::size_t max_bytes) : max_ops_(max_ops), max_bytes_(max_bytes) {}

  // Room for one op that holds so many bytes. An op that holds more than the bound has room when no other holds any.
  bool try_acquire(std::size_t bytes) noexcept;  // false too if others wait
  void acquire(std::size_t bytes);               // waits for it
  // The same; check() is called every 50 ms meanwhile, without a lock, and its exception ends the wait.
  void acquire_interruptibly(std::size_t bytes, void (*check)());
  void acquire_anyway(std::size_t bytes) noexcept;  // beyond the bound if need be
  void release(std::size_t bytes) noexcept;

 private:
  bool fits(std::size_t bytes) noexcept;
  bool add_op() noexcept;
  bool add_bytes(std::size_t bytes) noexcept;
  void wake_first() noexcept;

  const std::size_t max_ops_, max_bytes_;
  alignas(64) std::atomic<std::size_t> ops_{0};
  std::atomic<std::size_t> bytes_{0};
  std::atomic<int> waiting_{0};                 // size of queue_
  alignas(64) std::mutex mutex_;                // guards queue_
  std::deque<std::condition_variable*> queue_;  // of threads that wait; only the first one tries
};

}  // namespace heddle::detail
