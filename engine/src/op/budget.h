// Back-pressure: how many ops may be in flight in an engine that has a bound, and how many bytes they may
// hold.
//
// Only acquire_anyway() exceeds the bound. Threads that wait are served in the order in which they came, so
// that a large op is not starved by small ones. No wake-up is lost: a thread that waits (1) increments
// waiting_, (2) looks for room; a thread that releases room (3) does so, (4) reads waiting_. All are seq_cst:
// (2) sees (3), or (4) sees (1); and then the notification comes after the mutex that (2) held until it
// slept.
//
// Waking a thread takes as long as many short ops. So the first thread that waits naps first, some 100 µs,
// and only room for a batch of ops wakes it meanwhile. After the nap it takes any room, and if there is none
// the next room wakes it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>

namespace heddle::detail {

class Budget {
 public:
  static constexpr std::uint64_t kNoOp = ~std::uint64_t{0};
  // A bound of 0 means that there is none.
  Budget(std::size_t max_ops, std::size_t max_bytes) : max_ops_(max_ops), max_bytes_(max_bytes) {}

  // The functions from here to acquire_anyway() acquire room for one op that holds so many bytes. An op that
  // holds more than max_bytes has room when no other op holds any bytes.
  bool try_acquire(std::size_t bytes) noexcept;  // false also while other threads wait for room
  void acquire(std::size_t bytes);               // waits for room
  // As acquire(), but calls check() every 50 ms while it waits, without a lock; check's exception ends the
  // wait.
  void acquire_interruptibly(std::size_t bytes, void (*check)());
  void acquire_anyway(std::size_t bytes) noexcept;  // does not wait; may exceed the bounds
  // Releases the room of one op. `by`: sequence number of the op that has ended; kNoOp: no op has.
  void release(std::size_t bytes, std::uint64_t by = kNoOp) noexcept;
  // The sequence number of one of the ops that released room last; kNoOp: none has.
  std::uint64_t released_by() const noexcept { return released_by_.load(std::memory_order_relaxed); }

 private:
  bool fits(std::size_t bytes) noexcept;
  bool add_op() noexcept;
  bool add_bytes(std::size_t bytes) noexcept;
  bool has_batch() const noexcept;  // whether a quarter of the bound is free; for a bound below 4, any room
  void nap(std::condition_variable& wake, std::unique_lock<std::mutex>& lock);
  static void wait_briefly(std::condition_variable& wake, std::unique_lock<std::mutex>& lock);
  void wake_first() noexcept;

  const std::size_t max_ops_, max_bytes_;
  alignas(64) std::atomic<std::size_t> ops_{0};
  std::atomic<std::size_t> bytes_{0};
  std::atomic<std::uint64_t> released_by_{kNoOp};
  std::atomic<int> waiting_{0};       // size of queue_
  std::atomic<bool> napping_{false};  // whether the first waiting thread naps
  alignas(64) std::mutex mutex_;      // guards queue_
  // The condition variable of each waiting thread, in order of arrival. Only the first thread tries to get
  // room.
  std::deque<std::condition_variable*> queue_;
};

}  // namespace heddle::detail
