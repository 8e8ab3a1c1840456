// Worker slots: the right to run ops. An engine has one for each of its workers. A thread that has work takes a free slot,
// be it a thread of the pool or one that waits for an op. A thread without work, or blocked in an op, holds none.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "scheduler/ready_queue.h"

namespace heddle::detail {

// A slot's index is RunContext::worker; its queue has the ops that its holders made ready.
struct alignas(64) WorkerSlot {
  static constexpr std::uint32_t kUnknown = ~std::uint32_t{0};
  int index = 0;
  std::atomic<bool> taken{false};
  ReadyQueue queue;
  std::atomic<std::uint32_t> nanoseconds{kUnknown};  // average duration of the last ops run in this slot
  // Number of ops that ops in this slot pushed, and of ops that ended in the slot, by epoch. Only the holder
  // of the slot writes these counters.
  alignas(64) std::atomic<std::uint64_t> children[2] = {0, 0};
  std::atomic<std::uint64_t> ended[2] = {0, 0};
};

class WorkerSlots {
 public:
  explicit WorkerSlots(int count)
      : count_(count), slots_(new WorkerSlot[static_cast<std::size_t>(count)]), free_(count) {
    for (int i = 0; i < count; ++i) slots_[i].index = i;
  }

  // Takes the slot `last` if it is free, else any; null if all are taken.
  WorkerSlot* take(WorkerSlot* last = nullptr) noexcept {
    if (free_.load(std::memory_order_seq_cst) <= 0) return nullptr;
    if (last && try_take(*last)) return last;
    for (int i = 0; i < count_; ++i) {
      if (try_take(slots_[i])) return &slots_[i];
    }
    return nullptr;
  }
  // seq_cst: a thread that releases a slot looks for work next. A thread that finds no free slot counts
  // itself as waiting and looks for a slot again.
  void release(WorkerSlot& slot) noexcept {
    slot.nanoseconds.store(WorkerSlot::kUnknown, std::memory_order_relaxed);
    slot.taken.store(false, std::memory_order_seq_cst);
    free_.fetch_add(1, std::memory_order_seq_cst);
  }

  // Only a hint, except for a thread that has just released a slot.
  bool any_free() const noexcept { return free_.load(std::memory_order_seq_cst) > 0; }
  bool all_free() const noexcept { return free_.load(std::memory_order_relaxed) == count_; }
  int size() const { return count_; }
  WorkerSlot* begin() const { return slots_.get(); }
  WorkerSlot* end() const { return slots_.get() + count_; }

 private:
  bool try_take(WorkerSlot& slot) noexcept {
    // acquire: the writes of the last holder to the slot are seen.
    if (slot.taken.load(std::memory_order_relaxed) || slot.taken.exchange(true, std::memory_order_acq_rel)) {
      return false;
    }
    free_.fetch_sub(1, std::memory_order_seq_cst);
    return true;
  }
  const int count_;
  const std::unique_ptr<WorkerSlot[]> slots_;
  alignas(64) std::atomic<int> free_;
};

}  // namespace heddle::detail
