// The fences that an op on a var has to come after: that of the last op on a stream that wrote the var, and those of
// ops that have read it since. Ops on the CPU have no fence, since they have run when the var is granted to the next
// op.
#pragma once

#include <memory>
#include <vector>

#include "base/spin_lock.h"
#include "stream/fence.h"

namespace heddle::detail {

// add_read() and the other members are called in the order in which the var is granted to ops; for ops that read the
// var together, on several threads at once. The size is bounded by the number of streams, since a later read on a
// stream replaces the earlier ones.
class FenceSet {
 public:
  // `var`: whose fences these are. Fences that stand for several ops are asked by it.
  explicit FenceSet(const void* var = nullptr) : var_(var) {}

  // An op was issued: add_read if it only reads the var, set_write if it mutates it.
  void add_read(const Fence& fence);
  void set_write(const Fence& fence);

  // An op on the CPU has overwritten the var, after all fences that collect() gave it.
  void clear();

  // `fence`, of several ops, is done, and has left `failure` on the var, or none. From now on no var keeps the failures
  // of the others.
  void replace_write(const Fence& fence, FailurePtr failure);

  // Appends the fences that an op with that access to the var has to come after. If the op reads the var, the
  // fence of the last write is appended also if that write has failed.
  void collect(bool reads, bool mutates, std::vector<Dependency>& into);

  // The failure of the last write. Null if that write did not fail, is not done or was not on a stream.
  FailurePtr failure() const;

  // writing(): whether the last write is not done. busy(): whether the last write or a read since then is not
  // done.
  bool writing() const;
  bool busy() const;

  // For the child of a fork, where the lock may never be released, and a fence that is not done never will be. Sets
  // `failure` to that of the last write. False if it is not known how the last write ended.
  bool state_in_child(FailurePtr& failure) const;

  std::size_t size() const;

 private:
  // A fence that is not done is kept alive by what makes it done. A FenceSet must not keep it alive for longer, since a
  // failure is reported as long as a fence or a var holds it. The flag is needed, because a thread that finds the fence
  // gone has not synchronised with the op's work; one that reads the flag has.
  class WeakFence {
   public:
    WeakFence(const Fence& fence) : fence_(fence), done_(fence->done_flag()) {}
    bool done() const { return done_->load(std::memory_order_acquire); }
    Fence pending() const;  // the fence; null if it is done

   private:
    std::weak_ptr<FenceState> fence_;
    DoneFlag done_;
  };

  const void* const var_;
  mutable SpinLock lock_;  // guards all below; nothing else is locked while it is held
  Fence write_;
  std::vector<WeakFence> reads_;  // reads since the last write, at most one for each stream
};

}  // namespace heddle::detail
