#include "stream/fence_set.h"

#include <algorithm>
#include <mutex>

namespace heddle::detail {

Fence FenceSet::WeakFence::pending() const {
  if (done()) return nullptr;
  Fence fence = fence_.lock();
  // The fence can be gone only after it was done, so the flag is about to be seen.
  while (!fence && !done()) cpu_relax();
  return fence;
}

void FenceSet::add_read(const Fence& fence) {
  std::vector<Fence> seen;  // `seen` is freed outside the lock
  std::lock_guard guard(lock_);
  for (WeakFence& read : reads_) {
    const Fence& known = seen.emplace_back(read.pending());
    if (known && known->stream() != fence->stream()) continue;
    if (!known || known->ticket() < fence->ticket()) read = fence;
    return;
  }
  reads_.push_back(fence);
}

void FenceSet::set_write(const Fence& fence) {
  // The new write comes after all reads, so their fences are removed; they are freed outside the lock.
  std::vector<WeakFence> old_reads;
  Fence old_write = fence;
  std::lock_guard guard(lock_);
  write_.swap(old_write);
  reads_.swap(old_reads);
}

void FenceSet::clear() { set_write(nullptr); }

void FenceSet::replace_write(const Fence& fence, FailurePtr failure) {
  Fence replaced = failure ? FenceState::done_with(*fence, std::move(failure)) : nullptr;
  std::lock_guard guard(lock_);
  if (write_ == fence) write_.swap(replaced);  // what it held is freed outside the lock
}

void FenceSet::collect(bool reads, bool mutates, std::vector<Dependency>& into) {
  std::vector<Fence> dropped;  // `dropped` is freed outside the lock
  std::lock_guard guard(lock_);
  if (write_) {
    const bool done = write_->done();
    const bool failed = done && write_->failure(var_);
    if (!done || (failed && reads)) into.push_back({write_, reads, var_});
    if (done && !failed) dropped.push_back(std::move(write_));
  }
  auto add_pending = [&](const WeakFence& known) {
    Fence fence = known.pending();
    if (!fence) return false;
    into.push_back({std::move(fence), false, var_});
    return true;
  };
  if (mutates) std::erase_if(reads_, [&](const WeakFence& read) { return !add_pending(read); });
}

FailurePtr FenceSet::failure() const {
  std::lock_guard guard(lock_);
  return write_ && write_->done() ? write_->failure(var_) : nullptr;
}

// writing() and busy() free no fence, since their callers hold locks.
bool FenceSet::writing() const {
  std::lock_guard guard(lock_);
  return write_ && !write_->done();
}

bool FenceSet::busy() const {
  std::lock_guard guard(lock_);
  return (write_ && !write_->done()) ||
         std::any_of(reads_.begin(), reads_.end(), [](const WeakFence& read) { return !read.done(); });
}

bool FenceSet::state_in_child(FailurePtr& failure) const {
  std::unique_lock lock(lock_, std::try_to_lock);
  if (!lock || (write_ && !write_->done())) return false;
  failure = write_ ? write_->failure(var_) : nullptr;
  return true;
}

std::size_t FenceSet::size() const {
  std::lock_guard guard(lock_);
  return reads_.size() + (write_ ? 1 : 0);
}

}  // namespace heddle::detail
