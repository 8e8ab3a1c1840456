// What an op on a var has to come after: the fence of the last op on a stream that wrote it, and of those that have
// read it since. Ops on the CPU leave no fence, they have run when the var is given to the next one.
#pragma once

#include <memory>
#include <vector>

#include "base/spin_lock.h"
#include "stream/fence.h"

namespace heddle::detail {

// The engine calls it for ops in the order in which the var is given to them; those that read it together, from any
// thread. Bounded by the number of streams: a later read on a stream stands for the earlier ones.
class FenceSet {
 public:
  // The op was issued, and reads the var or (and) mutates it.
  void add_read(const Fence& fence);
  void set_write(const Fence& fence);

  // An op on the CPU has overwritten the var, after all that collect() gave it.
  void clear();

  // Appends what an op with that access has to come after and what is known to have failed, if it reads that. An op
  // that only mutates does not care how the last write ended.
  void collect(bool reads, bool mutates, std::vector<Dependency>& into);

  // How the last write ended: null if it ended well, is not done or was not on a stream.
  FailurePtr failure() const;

  // The last write is not done; or that, or one of the reads since.
  bool writing() const;
  bool busy() const;

  // In the child of a fork, where the lock may be held for ever and what is not done never will be. False if
  // the outcome of the last write is not known.
  bool settled_in_child(FailurePtr& failure) const;

  std::size_t size() const;

 private:
  // A fence that is not done is kept alive by what makes it done. Whoever only comes after it must not keep it longer:
  // with it goes its failure, and one that no var holds any more is no longer reported. That the fence is gone tells nobody
  // that its op's work is to be seen; the flag does.
  class WeakFence {
   public:
    WeakFence(const Fence& fence) : fence_(fence), done_(fence->done_flag()) {}
    bool done() const { return done_->load(std::memory_order_acquire); }
    Fence pending() const;  // null if it is done

   private:
    std::weak_ptr<FenceState> fence_;
    DoneFlag done_;
  };

  mutable SpinLock lock_;  // guards all below; nothing else is locked while it is held
  Fence write_;
  std::vector<WeakFence> reads_;  // one a stream
};

}  // namespace heddle::detail
