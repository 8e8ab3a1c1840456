// A fence stands for an op that was issued on a stream: it is the point in the stream's work at which the op is done.
// Ops on the same stream that depend on it need nothing; those on another stream wait there for its event. Ops on the
// CPU, and code that needs the op's error, are called back when it is done.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <heddle/stream.h>

#include "op/failure_ptr.h"

namespace heddle::detail {

class EventPool;
class FenceState;

using Fence = std::shared_ptr<FenceState>;

// A fence that an op has to come after, and how the op depends on it.
struct Dependency {
  Fence fence;
  bool read = false;          // true: the op reads what the fence's op wrote, and inherits its failure
  const void* var = nullptr;  // the var through which it does; null: not known
};

// Computes the failure with which an op ends, and which it leaves on the vars that it mutates: `own` is what its work
// threw, `inherited` the failures of what it read. Called once, on any thread, with no lock held, before the fence is
// done.
using Outcome = std::function<FailurePtr(std::exception_ptr own, const std::vector<FailurePtr>& inherited)>;

// The same for a fence that stands for several ops, which leave different failures on their vars.
using VarFailures = std::vector<std::pair<const void*, FailurePtr>>;
using OutcomeOfVars = std::function<VarFailures(std::exception_ptr own, const VarFailures& inherited)>;

// Whether a fence is done, for code that does not keep the fence alive.
using DoneFlag = std::shared_ptr<const std::atomic<bool>>;

// Done when the event has completed and all that the op read is done. Only then is it known whether the op failed. Made
// by Issuer::issue. Thread-safe.
class FenceState {
 public:
  FenceState(Stream& stream, std::uint64_t ticket, Outcome outcome)
      : stream_(&stream), ticket_(ticket), outcome_(std::move(outcome)) {}

  // Only for comparison: the stream may be gone once the fence is done.
  const Stream* stream() const { return stream_; }
  // The number of the fence among those of its stream. If one is done, the work of all before it has run.
  std::uint64_t ticket() const { return ticket_; }
  bool done() const { return done_->load(std::memory_order_acquire); }
  DoneFlag done_flag() const { return done_; }
  // Valid once the fence is done. Of a fence of several ops: the failure that they have left on `var`.
  FailurePtr failure(const void* var = nullptr) const;
  // A fence in place of one that is done, with that failure.
  static Fence done_with(const FenceState& fence, FailurePtr failure);

  // Work that is enqueued on `waiter` from now on runs after this fence. Does nothing if the fence is done.
  // Throws what Stream::wait throws.
  void before(Stream& waiter) const {
    if (recorded_ && !done()) waiter.wait(*event_, generation_);
  }

  // Calls fn once: now if the fence is done, else when it is; with no lock held. fn must not throw.
  void when_done(std::function<void()> fn) {
    if (!calls_back(fn)) fn();
  }

 private:
  friend class Issuer;
  friend void when_done(Fence&& fence, std::function<void()> fn);
  bool calls_back(std::function<void()>& fn);
  void find_failures();
  static void arrive(Fence& held);
  static void complete_fence(Fence self);

  Stream* const stream_;
  const std::uint64_t ticket_;
  // The Issuer sets the next members before it returns the fence; complete_fence() is the last to use them.
  Event* event_ = nullptr;
  std::uint64_t generation_ = 0;
  bool recorded_ = true;  // false: record() has waited for the work instead
  EventPool* pool_ = nullptr;
  Outcome outcome_;
  OutcomeOfVars outcome_of_vars_;  // in place of outcome_ if the fence stands for several ops
  std::vector<Dependency> reads_;
  std::exception_ptr own_;
  std::atomic<std::size_t> remaining_{1};  // conditions that do not hold yet for being done, see arrive()
  FailurePtr failure_;                     // this and the next are written before done_ is set
  VarFailures failures_of_vars_;
  const std::shared_ptr<std::atomic<bool>> done_ = std::make_shared<std::atomic<bool>>(false);
  std::mutex mutex_;  // guards waiters_ and the change of done_; nothing else is locked while it is held
  std::vector<std::function<void()>> waiters_;
};

// As FenceState::when_done, but releases this reference on the fence before fn is called, since the fence's failure
// must not live longer than the vars that it poisons.
void when_done(Fence&& fence, std::function<void()> fn);

// Calls fn once, when the fences of all dependencies are done, perhaps at once. References on the fences are
// released before. fn must not throw.
void when_all_done(std::vector<Dependency>&& dependencies, std::function<void()> fn);

}  // namespace heddle::detail
