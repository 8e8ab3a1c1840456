// Who may run ops: as many threads at once as the engine has workers, each holding a seat. Whoever has work takes a free
// seat, a thread of the engine or one that waits for an op; without work, or blocked, nobody keeps one.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "scheduler/ready_queue.h"

namespace heddle::detail {

// Its number is RunContext::worker, its queue holds what its holders made ready.
struct alignas(64) Seat {
  static constexpr std::uint32_t kUnknown = ~std::uint32_t{0};
  int index = 0;
  std::atomic<bool> taken{false};
  ReadyQueue queue;
  std::atomic<std::uint32_t> nanoseconds{kUnknown};  // that an op took lately, all told
  // Ops of even and odd epochs that were pushed by ops here, and that ended here. Written by the holder alone.
  alignas(64) std::atomic<std::uint64_t> children[2] = {0, 0};
  std::atomic<std::uint64_t> ended[2] = {0, 0};
};

class Seats {
 public:
  explicit Seats(int count) : count_(count), seats_(new Seat[static_cast<std::size_t>(count)]), free_(count) {
    for (int i = 0; i < count; ++i) seats_[i].index = i;
  }

  // The one last held by the caller, if it is free, else any; null if all are taken.
  Seat* take(Seat* last = nullptr) noexcept {
    if (free_.load(std::memory_order_seq_cst) <= 0) return nullptr;
    if (last && try_take(*last)) return last;
    for (int i = 0; i < count_; ++i) {
      if (try_take(seats_[i])) return &seats_[i];
    }
    return nullptr;
  }
  // seq_cst: who releases a seat then looks for work, who finds no seat says so and then looks again.
  void release(Seat& seat) noexcept {
    seat.nanoseconds.store(Seat::kUnknown, std::memory_order_relaxed);
    seat.taken.store(false, std::memory_order_seq_cst);
    free_.fetch_add(1, std::memory_order_seq_cst);
  }

  // A hint for all but the thread that just released one.
  bool any_free() const noexcept { return free_.load(std::memory_order_seq_cst) > 0; }
  bool all_free() const noexcept { return free_.load(std::memory_order_relaxed) == count_; }
  int size() const { return count_; }
  Seat* begin() const { return seats_.get(); }
  Seat* end() const { return seats_.get() + count_; }

 private:
  bool try_take(Seat& seat) noexcept {
    // acquire: the last holder's writes to the seat are seen.
    if (seat.taken.load(std::memory_order_relaxed) || seat.taken.exchange(true, std::memory_order_acq_rel)) {
      return false;
    }
    free_.fetch_sub(1, std::memory_order_seq_cst);
    return true;
  }
  const int count_;
  const std::unique_ptr<Seat[]> seats_;
  alignas(64) std::atomic<int> free_;
};

}  // namespace heddle::detail
