// A fence is what is left of an op that was issued on a stream: the point in the stream's work at which the op is done.
// Dependents on the same stream need nothing; those on another one wait for its event there; those on the CPU, and
// everybody who wants to know how the op ended, are called back when it is done.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <heddle/stream.h>

#include "op/failure_ptr.h"

namespace heddle::detail {

class EventPool;
class FenceState;

using Fence = std::shared_ptr<FenceState>;

// Something an op has to come after.
struct Dependency {
  Fence fence;
  bool read = false;  // the op reads what that one wrote: a failure there is a failure here
};

// Says how an op ended: `own` is what its work threw, `inherited` the failures of what it read. Its result is what the
// op leaves on the vars it mutates. Called once, on any thread, with no lock held, before the fence is done.
using Outcome = std::function<FailurePtr(std::exception_ptr own, const std::vector<FailurePtr>& inherited)>;

// Whether a fence is done, for those who do not keep it alive.
using DoneFlag = std::shared_ptr<const std::atomic<bool>>;

// Done when the event has completed and everything the op read is done: only then is it known whether it failed.
// Made by Issuer::issue. Any thread.
class FenceState {
 public:
  FenceState(Stream& stream, std::uint64_t ticket, Outcome outcome)
      : stream_(&stream), ticket_(ticket), outcome_(std::move(outcome)) {}

  // To be compared only: it may be gone once the fence is done.
  const Stream* stream() const { return stream_; }
  // Its place among the fences of its stream: where one is done, the work of all before it has run.
  std::uint64_t ticket() const { return ticket_; }
  bool done() const { return done_->load(std::memory_order_acquire); }
  DoneFlag done_flag() const { return done_; }
  const FailurePtr& failure() const { return failure_; }  // once done

  // What `waiter` is given from now on runs after this. Does nothing if it is done. Throws what Stream::wait throws.
  void before(Stream& waiter) const {
    if (!done()) waiter.wait(*event_, generation_);
  }

  // Calls fn once: now if the fence is done, else when it is; with no lock held. fn must not throw.
  void when_done(std::function<void()> fn) {
    if (!calls_back(fn)) fn();
  }

 private:
  friend class Issuer;
  friend void when_done(Fence&& fence, std::function<void()> fn);
  bool calls_back(std::function<void()>& fn);
  static void arrive(Fence& held);
  static void settle(Fence self);

  Stream* const stream_;
  const std::uint64_t ticket_;
  // What follows is set up by the Issuer before it hands the fence out; settle() ends its use.
  Event* event_ = nullptr;
  std::uint64_t generation_ = 0;
  EventPool* pool_ = nullptr;
  Outcome outcome_;
  std::vector<Fence> reads_;
  std::exception_ptr own_;
  std::atomic<std::size_t> to_come_{1};  // of what it takes to be done; who brings the last one settles
  FailurePtr failure_;                   // written before done_
  const std::shared_ptr<std::atomic<bool>> done_ = std::make_shared<std::atomic<bool>>(false);
  std::mutex mutex_;  // guards waiters_ and the change of done_; nothing else is locked while it is held
  std::vector<std::function<void()>> waiters_;
};

// As FenceState::when_done, but when fn is called the fence is held by nobody who has only brought it about: its failure
// lives as long as vars that it poisons.
void when_done(Fence&& fence, std::function<void()> fn);

// Calls fn once, when all of them are done: now, if they are. They are let go of before. fn must not throw.
void when_all_done(std::vector<Dependency>&& dependencies, std::function<void()> fn);

}  // namespace heddle::detail
