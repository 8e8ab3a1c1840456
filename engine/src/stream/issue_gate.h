// Lets one thread at a time issue ops on a stream, without making the others wait: a thread that finds the gate taken
// leaves its op to the thread inside, and goes on with other work.
#pragma once

#include <mutex>
#include <utility>

#include "base/spin_lock.h"

namespace heddle::detail {

// Op has next_ready() and set_next_ready(), a link that the gate uses while the op is in it.
//
//   if (gate.enter(op)) do issue(op); while ((op = gate.next()));
//   if (gate.enter(op)) issue(op), run_again(gate.open());
template <class Op> class IssueGate {
 public:
  // True: the caller has to issue op, and then the ops that next() returns, until that is null. False: another thread
  // will issue op.
  bool enter(Op* op) {
    std::lock_guard guard(lock_);
    if (!taken_) return taken_ = true;
    op->set_next_ready(nullptr);
    if (tail_) {
      tail_->set_next_ready(op);
    } else {
      head_ = op;
    }
    tail_ = op;
    return false;
  }

  // The thread inside leaves. The ops that it returns, linked by next_ready(), have to enter() the gate
  // again.
  Op* open() {
    std::lock_guard guard(lock_);
    taken_ = false;
    tail_ = nullptr;
    return std::exchange(head_, nullptr);
  }

  Op* next() {
    std::lock_guard guard(lock_);
    Op* op = head_;
    if (!op) {
      taken_ = false;
      return nullptr;
    }
    head_ = op->next_ready();
    if (!head_) tail_ = nullptr;
    return op;
  }

 private:
  SpinLock lock_;  // guards all below; nothing else is locked while it is held
  bool taken_ = false;
  Op* head_ = nullptr;
  Op* tail_ = nullptr;
};

}  // namespace heddle::detail
