// The one order in which all pushes of an engine take effect: a queue that any thread appends to with one
// exchange, and that one thread at a time takes from (D. Vyukov's intrusive multi-producer queue).
//
// push() never waits. Between its two steps the list is cut: pop() then returns null, while empty() is false.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/spin_lock.h"

namespace heddle::detail {

enum class OpKind : std::uint8_t {
  user,
  wait,        // an op that signals a WaitState; runs at once on the thread that makes it ready
  delete_var,  // deletes a var whose last handle is gone; runs at once on the thread that enters it
  epoch_end,   // submitted by wait_all: ends the epoch of the ops pushed before it
};

// A node of the queue: an op, or a var whose last handle is gone.
struct QueueNode {
  explicit QueueNode(OpKind what) : kind(what) {}
  std::atomic<QueueNode*> next{nullptr};  // the next node in the SubmissionQueue, later in a ReadyList
  OpKind kind;
};

class SubmissionQueue {
 public:
  // Any thread. What the calling thread pushed before is popped first, and so is what it saw other threads push.
  void push(QueueNode* node) noexcept {
    node->next.store(nullptr, std::memory_order_relaxed);
    // release: the thread that pops the node sees what is in it. acquire: what this thread saw pushed comes before it.
    // seq_cst: the pusher looks for parked workers next, and a worker looks here after it has joined them
    // (IdleWorkers).
    QueueNode* before = last_.exchange(node, std::memory_order_seq_cst);
    // release: pairs with pop(), which reads the node behind this link.
    before->next.store(node, std::memory_order_release);
  }

  // For the thread that holds the lock: the oldest node, null if there is none or its pusher has not linked it yet.
  QueueNode* pop() noexcept {
    QueueNode* first = first_;
    // acquire, here and below: pairs with the link in push().
    QueueNode* next = first->next.load(std::memory_order_acquire);
    if (first == &stub_) {
      if (!next) return nullptr;
      first_ = first = next;
      next = first->next.load(std::memory_order_acquire);
    }
    if (!next) {
      // The stub takes the place of the last node, unless another node was pushed meanwhile. If the stub came to
      // lie behind a node that has not been popped, empty() would be true too early.
      stub_.next.store(nullptr, std::memory_order_relaxed);
      QueueNode* last = first;
      // release: a pusher that links the stub to its node sees that the stub's link was cleared.
      if (!last_.compare_exchange_strong(last, &stub_, std::memory_order_seq_cst)) return nullptr;
      next = &stub_;
    }
    first_ = next;
    return first;
  }

  bool try_lock() noexcept { return lock_.try_lock(); }
  void lock() noexcept { lock_.lock(); }
  void unlock() noexcept { lock_.unlock(); }

  // For the thread that holds the lock, and for the child of a fork. Calls visit with each node, oldest first, until it
  // returns false. The result is false if a push under way has cut the queue: nodes behind the cut were not visited.
  template <class Visit> bool for_each(Visit visit) const {
    const QueueNode* last = nullptr;
    for (const QueueNode* node = first_; node; node = node->next.load(std::memory_order_acquire)) {
      if (node != &stub_ && !visit(*node)) return true;
      last = node;
    }
    return last == last_.load(std::memory_order_relaxed);
  }

  // Any thread. False from the moment a push has begun until its node was popped.
  bool empty() const noexcept { return last_.load(std::memory_order_seq_cst) == &stub_; }

 private:
  // Three cache lines: pushers use the first, the thread that pops uses the second, both use the stub now and then.
  alignas(64) std::atomic<QueueNode*> last_{&stub_};
  alignas(64) SpinLock lock_;  // guards first_
  QueueNode* first_ = &stub_;
  alignas(64) QueueNode stub_{OpKind::user};
};

}  // namespace heddle::detail
