// Epochs: how wait_all() knows that all ops pushed before it have ended, while other threads push more.
//
// One of two epochs is open. An op pushed outside ops belongs to the epoch that is open when the op is entered; an op pushed
// inside an op belongs to the epoch of that op. wait_all() submits a mark, which ends the open epoch when it is entered, and
// waits until that epoch is over: as many ops of it have ended as were pushed.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/submission_queue.h"
#include "scheduler/worker_slots.h"

namespace heddle::detail {

class Epochs {
 public:
  using Epoch = std::uint8_t;  // 0 or 1

  Epochs(SubmissionQueue& submissions, const WorkerSlots& slots) : submissions_(submissions), slots_(slots) {}

  // The caller of open(), count_entered() and end_open() holds the lock of the submission queue.
  Epoch open() const { return open_; }
  Epoch count_entered() { return ++entered_[open_], open_; }  // an op pushed outside ops was entered
  void end_open() { open_ ^= 1; }

  // count_child() and count_ended() may be called on any thread. `slot` is the worker slot that the calling
  // thread holds; null: it holds none. Only the holder of a slot writes the slot's counters, so that these
  // need no atomic addition. release: pairs with counts_match().
  void count_child(Epoch epoch, WorkerSlot* slot) noexcept {
    slot ? increment(slot->children[epoch]) : add(children_without_slot_[epoch]);
  }
  void count_ended(Epoch epoch, WorkerSlot* slot) noexcept {
    slot ? increment(slot->ended[epoch]) : add(ended_without_slot_[epoch]);
  }

  // `vars`: for each epoch, the number of vars that are to be deleted since their last handle is gone. An
  // epoch is over only after their deletion, so that they hold no error any more.
  void begin_deleting(const int (&vars)[2]) noexcept;  // the caller holds the lock of the submission queue
  void end_deleting(const int (&vars)[2]) noexcept;

  bool counts_match(Epoch epoch) const;  // whether no op of the epoch is in flight
  bool is_over(Epoch epoch) const;       // whether the epoch is closed and its ops and deletions have ended
  std::int64_t in_flight() const;        // number of users' ops that are counted and have not ended
  std::uint64_t ended_on_slots() const;  // number of ops that have ended on threads with a slot

  // Wakes the thread in wait_all() if the epoch that it awaits is over. Any thread; call it after what may have ended the epoch.
  void check() noexcept;

  // The wait of wait_all() for the epoch that is open when it is made. Only one thread at a time has a Wait;
  // others block in the constructor.
  class Wait {
   public:
    explicit Wait(Epochs& epochs);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    Epoch epoch() const { return epoch_; }
    bool is_over() const { return epochs_.is_over(epoch_); }
    // Call prepare(), then is_over(), then block() with the result of prepare(): so no end of the epoch is
    // missed.
    std::uint32_t prepare();
    void block(std::uint32_t prepared);

   private:
    Epochs& epochs_;
    const std::lock_guard<std::mutex> one_;
    Epoch epoch_;
  };
  bool is_awaited() const { return waiters_.load(std::memory_order_seq_cst) > 0; }
  // Changes whenever an awaited epoch is over.
  const std::atomic<std::uint32_t>& signal() const { return signal_; }
  const std::atomic<std::uint32_t>& over() const { return over_; }  // not 0 once the awaited epoch is over

 private:
  static void increment(std::atomic<std::uint64_t>& count) noexcept {
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  static void add(std::atomic<std::uint64_t>& count) noexcept {
    count.fetch_add(1, std::memory_order_release);
  }
  std::uint64_t ended(Epoch epoch) const;
  std::uint64_t children(Epoch epoch) const;

  SubmissionQueue& submissions_;
  const WorkerSlots& slots_;
  // Number of ops pushed outside ops that are entered, by epoch; guarded by the lock of submissions_.
  std::uint64_t entered_[2] = {0, 0};
  Epoch open_ = 0;  // the open epoch; guarded by the lock of submissions_
  // Number of ops pushed inside ops by threads without a worker slot, by epoch.
  std::atomic<std::uint64_t> children_without_slot_[2] = {0, 0};
  // Number of ops that have ended on threads without a worker slot, by epoch.
  std::atomic<std::uint64_t> ended_without_slot_[2] = {0, 0};
  // Number of vars whose deletion was entered and has not ended, by epoch.
  std::atomic<int> deleting_[2]{};
  std::mutex one_waits_;  // held while a Wait lives
  std::atomic<Epoch> awaited_{1};
  std::atomic<int> waiters_{0};
  std::atomic<std::uint32_t> signal_{0}, over_{0};
};

}  // namespace heddle::detail
