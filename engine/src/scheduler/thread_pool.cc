#include "scheduler/thread_pool.h"

#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include <heddle/error.h>

namespace heddle::detail {

void ThreadPool::start() {
  std::lock_guard guard(mutex_);
  for (int i = 0; i < slots_.size(); ++i) threads_.emplace_back(work_);
}

void ThreadPool::join() {
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::thread_blocks() {
  std::lock_guard guard(mutex_);
  ++blocked_;
  if (static_cast<int>(threads_.size()) - blocked_ >= slots_.size()) return;
  try {
    threads_.emplace_back(work_);
  } catch (const std::exception& error) {                      // no thread, or no memory for one
    if (static_cast<int>(threads_.size()) > blocked_) return;  // the threads that exist do all the work
    --blocked_;
    throw Error("a wait inside an op needs a thread to work meanwhile, and " +
                std::to_string(threads_.size()) + " threads are the most there can be: " + error.what());
  }
}

void ThreadPool::thread_resumes() noexcept {
  std::lock_guard guard(mutex_);
  --blocked_;
}

WorkerSlot* ThreadPool::await_slot(const std::function<std::uint64_t()>& ended) noexcept {
  constexpr auto kWhile = std::chrono::milliseconds(20);
  std::unique_lock lock(mutex_);
  // seq_cst: either this thread finds the slot that is released just now, or its holder sees that this thread
  // waits.
  slot_waiters_.fetch_add(1, std::memory_order_seq_cst);
  WorkerSlot* slot = nullptr;
  const auto taken = [&] { return (slot = slots_.take()) != nullptr; };
  for (std::uint64_t before = ended(); !released_.wait_for(lock, kWhile, taken);) {
    if (std::exchange(before, ended()) == before) break;
  }
  slot_waiters_.fetch_sub(1, std::memory_order_seq_cst);
  if (!slot) slot_timeouts_.fetch_add(1, std::memory_order_relaxed);
  return slot;
}

void ThreadPool::slot_released() noexcept {
  if (!slot_wanted()) return;
  // A thread that is about to wait looks for a slot under the lock: once the lock is taken here, that thread
  // waits or has a slot.
  { std::lock_guard guard(mutex_); }
  released_.notify_one();
}

}  // namespace heddle::detail
