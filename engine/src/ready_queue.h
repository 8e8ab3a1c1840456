// Ops that may run, taken from the front.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>

#include "op_node.h"
#include "spin_lock.h"

namespace heddle::detail {

class alignas(64) ReadyQueue {
 public:
  void push_back(ReadyList& list, std::size_t count) {
    std::lock_guard guard(lock_);
    if (!ops_.tail) {
      ops_ = list;
    } else {
      ops_.tail->next = list.head;
      ops_.tail = list.tail;
    }
    count_pushed(list, count);
  }

  void push_front(ReadyList& list, std::size_t count) {
    std::lock_guard guard(lock_);
    if (!ops_.head) {
      ops_ = list;
    } else {
      list.tail->next = ops_.head;
      ops_.head = list.head;
    }
    count_pushed(list, count);
  }

  // Takes up to `most` ops, at most half of them rounded up, in order. Returns how many.
  std::size_t take(ReadyList& into, std::size_t most) {
    if (empty()) return 0;
    std::lock_guard guard(lock_);
    const std::size_t size = size_.load(std::memory_order_relaxed);
    const std::size_t count = std::min(most, (size + 1) / 2);
    for (std::size_t i = 0; i < count; ++i) into.push_back(ops_.pop_front());
    size_.fetch_sub(count, std::memory_order_relaxed);
    return count;
  }

  bool empty() const { return size_.load(std::memory_order_seq_cst) == 0; }

 private:
  void count_pushed(ReadyList& list, std::size_t count) {
    // seq_cst: a pusher then looks for sleeping workers, a worker that goes to sleep looks here after it says so
    // (see Parking); one of the two must see the other.
    size_.fetch_add(count, std::memory_order_seq_cst);
    list = {};
  }

  SpinLock lock_;  // guards ops_
  ReadyList ops_;
  std::atomic<std::size_t> size_{0};
};

}  // namespace heddle::detail
