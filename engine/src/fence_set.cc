#include "fence_set.h"

#include <algorithm>
#include <iterator>
#include <mutex>

namespace heddle::detail {

void FenceSet::add_read(const Fence& fence) {
  std::lock_guard guard(lock_);
  for (Fence& read : reads_) {
    if (read->stream() != fence->stream()) continue;
    if (read->ticket() < fence->ticket()) read = fence;
    return;
  }
  reads_.push_back(fence);
}

void FenceSet::set_write(const Fence& fence) {
  // The write comes after all of them, so they need not be remembered. Freed outside the lock.
  std::vector<Fence> old_reads;
  Fence old_write = fence;
  std::lock_guard guard(lock_);
  write_.swap(old_write);
  reads_.swap(old_reads);
  forgiven_ = false;
}

void FenceSet::clear() { set_write(nullptr); }

void FenceSet::collect(bool reads, bool mutates, std::vector<Dependency>& into) {
  std::vector<Fence> dropped;  // freed outside the lock
  std::lock_guard guard(lock_);
  if (write_) {
    const bool done = write_->done();
    const bool failed = done && !forgiven_ && write_->failure();
    if (!done || (failed && reads)) into.push_back({write_, reads && !forgiven_});
    if (done && !failed) dropped.push_back(std::move(write_));
  }
  auto first_done =
      std::partition(reads_.begin(), reads_.end(), [](const Fence& read) { return !read->done(); });
  dropped.insert(dropped.end(), std::move_iterator(first_done), std::move_iterator(reads_.end()));
  reads_.erase(first_done, reads_.end());
  if (!mutates) return;
  for (const Fence& read : reads_) into.push_back({read, false});
}

FailurePtr FenceSet::failure() const {
  std::lock_guard guard(lock_);
  return write_ && !forgiven_ && write_->done() ? write_->failure() : nullptr;
}

void FenceSet::forgive() {
  std::lock_guard guard(lock_);
  forgiven_ = true;
}

bool FenceSet::writing() const {
  std::lock_guard guard(lock_);
  return write_ && !write_->done();
}

bool FenceSet::settled_in_child(FailurePtr& failure) const {
  std::unique_lock lock(lock_, std::try_to_lock);
  if (!lock || (write_ && !write_->done())) return false;
  failure = write_ && !forgiven_ ? write_->failure() : nullptr;
  return true;
}

std::size_t FenceSet::size() const {
  std::lock_guard guard(lock_);
  return reads_.size() + (write_ ? 1 : 0);
}

}  // namespace heddle::detail
