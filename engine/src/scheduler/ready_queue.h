// Ops that may run, taken from the front.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <utility>

#include "base/spin_lock.h"
#include "op/op_node.h"

namespace heddle::detail {

class alignas(64) ReadyQueue {
 public:
  // push_back() and push_front() leave `list` empty.
  void push_back(ReadyList& list) {
    std::lock_guard guard(lock_);
    if (!ops_.tail) {
      ops_ = list;
    } else {
      ops_.tail->set_next_ready(list.head);
      ops_.tail = list.tail;
      ops_.size += list.size;
    }
    publish(list);
  }
  void push_front(ReadyList& list) {
    std::lock_guard guard(lock_);
    if (ops_.head) {
      list.tail->set_next_ready(ops_.head);
      list.tail = ops_.tail;
      list.size += ops_.size;
    }
    ops_ = list;
    publish(list);
  }

  OpNode* take_one() {
    if (empty()) return nullptr;
    std::lock_guard guard(lock_);
    if (ops_.empty()) return nullptr;
    OpNode* op = ops_.pop_front();
    size_.store(ops_.size, std::memory_order_relaxed);
    return op;
  }

  // Among the first `most` ops, takes the first one for which wanted() is true; null if there is none.
  template <class Wanted> OpNode* take_first(int most, Wanted wanted) {
    if (empty()) return nullptr;
    std::lock_guard guard(lock_);
    OpNode* before = nullptr;
    for (OpNode* op = ops_.head; op && most-- > 0; before = std::exchange(op, op->next_ready())) {
      if (!wanted(*op)) continue;
      OpNode* next = op->next_ready();
      if (before) {
        before->set_next_ready(next);
      } else {
        ops_.head = next;
      }
      if (!next) ops_.tail = before;
      --ops_.size;
      size_.store(ops_.size, std::memory_order_relaxed);
      return op;
    }
    return nullptr;
  }

  // Moves ops from the front of the queue to `into`: up to `most`, but at most half of the queue, rounded up.
  void take(ReadyList& into, std::size_t most) {
    if (empty()) return;
    std::lock_guard guard(lock_);
    for (std::size_t count = std::min(most, (ops_.size + 1) / 2); count > 0; --count) {
      into.push_back(ops_.pop_front());
    }
    size_.store(ops_.size, std::memory_order_relaxed);
  }

  // Calls visit with each op of the queue until visit returns false. No op of the queue ends meanwhile.
  template <class Visit> void for_each(Visit visit) const {
    std::lock_guard guard(lock_);
    for (const OpNode* op = ops_.head; op; op = op->next_ready()) {
      if (!visit(*op)) return;
    }
  }

  bool empty() const { return size_.load(std::memory_order_seq_cst) == 0; }

 private:
  void publish(ReadyList& list) {
    list = {};
    // seq_cst: the pushing thread stores the size and then looks for parked workers. A worker counts itself
    // as parked and then loads the size. So one of them sees the other, see IdleWorkers.
    size_.store(ops_.size, std::memory_order_seq_cst);
  }

  mutable SpinLock lock_;  // guards ops_
  ReadyList ops_;
  std::atomic<std::size_t> size_{0};
};

}  // namespace heddle::detail
