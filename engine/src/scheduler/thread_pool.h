// The threads of an engine. However many are blocked inside ops, there is one for each slot that can run ops.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "scheduler/worker_slots.h"

namespace heddle::detail {

class ThreadPool {
 public:
  // `work` is the main function of a thread; it returns at the end.
  ThreadPool(WorkerSlots& slots, std::function<void()> work) : slots_(slots), work_(std::move(work)) {}
  // Starts one thread for each slot; if it throws std::system_error, join() has to be called too.
  void start();
  void join();  // joins all threads, whose `work` is about to return

  // Called by a thread of the pool that is going to block inside an op. Starts another one if too few are
  // left to work. Throws Error if no thread can be started and this is the last one that works.
  void thread_blocks();
  void thread_resumes() noexcept;
  // Waits for a slot, for a thread that continues inside an op. Null after a time in which no op has ended,
  // as `ended()` counts them: the holders of the slots may need a lock that the op holds, so it has to
  // continue without a slot.
  WorkerSlot* await_slot(const std::function<std::uint64_t()>& ended) noexcept;
  // How often await_slot() returned null.
  std::uint64_t slot_timeouts() const { return slot_timeouts_.load(std::memory_order_relaxed); }
  // Whether threads wait for a slot: then a thread between two ops releases its slot and calls
  // slot_released().
  bool slot_wanted() const noexcept { return slot_waiters_.load(std::memory_order_seq_cst) > 0; }
  void slot_released() noexcept;

 private:
  WorkerSlots& slots_;
  std::function<void()> work_;
  std::atomic<int> slot_waiters_{0};  // threads in await_slot()
  std::atomic<std::uint64_t> slot_timeouts_{0};
  std::mutex mutex_;  // guards all below
  std::condition_variable released_;
  int blocked_ = 0;
  std::deque<std::thread> threads_;
};

}  // namespace heddle::detail
