// The threads of an engine. Besides those that are blocked inside ops there is at least one for each worker
// slot.
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
  // `work` is the main function of each thread; it returns when the engine stops.
  ThreadPool(WorkerSlots& slots, std::function<void()> work) : slots_(slots), work_(std::move(work)) {}
  // Starts one thread for each slot; if it throws std::system_error, join() has to be called too.
  void start();
  void join();  // joins all threads, whose `work` is about to return

  // Called by a thread of the pool that is going to block inside an op. Starts another thread if too few are
  // left to work. Throws Error if none can be started and the calling thread is the last one that works.
  void thread_blocks();
  void thread_resumes() noexcept;
  // Waits for a worker slot for the calling thread, which was blocked inside an op and is to continue it.
  // Returns null after a time in which ended(), the number of ops that have ended, has not changed. Then the
  // thread has to continue without a slot: the holders of the slots may need a lock that its op holds.
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
