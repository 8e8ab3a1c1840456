// Ready ops of a priority other than 0, in the order of their keys. Ops of priority 0 are never in this queue; the
// queue costs each of them one load of top_.
//
// The key of an op is its sequence, less kAgeing for each step of its priority: the op runs as if it were an op of
// priority 0 with that sequence. So it overtakes a bounded number of ops, or is overtaken by as many, and none starves.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <vector>

#include "base/spin_lock.h"
#include "op/op_node.h"

namespace heddle::detail {

class alignas(64) PriorityQueue {
 public:
  static constexpr std::uint64_t kNothing = std::numeric_limits<std::int64_t>::max();

  // Called when an op of a priority above 0 is about to be submitted: until it is entered, workers enter
  // submissions before they run anything else.
  void announce() {
    std::lock_guard guard(lock_);
    ++announced_;
    publish();
  }
  void entered(int count) {
    std::lock_guard guard(lock_);
    announced_ -= count;
    publish();
  }
  bool any_announced() const { return top_.load(std::memory_order_relaxed) == kAnnounced; }

  void push(OpNode* op) {
    std::lock_guard guard(lock_);
    heap_.push_back({key(*op), op});
    std::push_heap(heap_.begin(), heap_.end());
    publish();
  }

  // Whether an op of the queue should run, or an announced op be entered, before the op of priority 0 with
  // that sequence. With kNothing: whether the queue has an op or one is announced.
  bool before(std::uint64_t sequence) const {
    return top_.load(std::memory_order_relaxed) < static_cast<std::int64_t>(sequence);
  }
  // Removes and returns the op with the smallest key if it comes before an op of priority 0 with that
  // sequence; else returns null.
  OpNode* take_before(std::uint64_t sequence) {
    std::lock_guard guard(lock_);
    if (heap_.empty() || heap_.front().key >= static_cast<std::int64_t>(sequence)) return nullptr;
    OpNode* op = heap_.front().op;
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
    publish();
    return op;
  }

  bool empty() const { return size_.load(std::memory_order_seq_cst) == 0; }

 private:
  static constexpr std::int64_t kAnnounced = std::numeric_limits<std::int64_t>::min();
  struct Entry {
    std::int64_t key;
    OpNode* op;
    // Compares keys in reverse: std::push_heap keeps the largest entry on top, and the smallest key is wanted
    // there.
    bool operator<(const Entry& other) const {
      return key != other.key ? key > other.key : op->sequence > other.op->sequence;
    }
  };
  static std::int64_t key(const OpNode& op) {
    return static_cast<std::int64_t>(op.sequence) - std::int64_t{op.priority()} * kAgeing;
  }
  void publish() {
    const std::int64_t top = heap_.empty() ? static_cast<std::int64_t>(kNothing) : heap_.front().key;
    top_.store(announced_ > 0 ? kAnnounced : top, std::memory_order_relaxed);
    // seq_cst: the pushing thread stores the size and then looks for parked workers. A worker counts itself
    // as parked and then loads the size. So one of them sees the other, see IdleWorkers.
    size_.store(heap_.size(), std::memory_order_seq_cst);
  }

  std::atomic<std::int64_t> top_{static_cast<std::int64_t>(kNothing)};
  std::atomic<std::size_t> size_{0};
  alignas(64) SpinLock lock_;  // guards all below
  int announced_ = 0;
  std::vector<Entry> heap_;
};

}  // namespace heddle::detail
