#include "op/budget.h"

#include "base/spin_lock.h"

namespace heddle::detail {
namespace {

constexpr int kSpins = 200;  // attempts to get room before the thread sleeps

}  // namespace

bool Budget::add_op() noexcept {
  std::size_t ops = ops_.load(std::memory_order_seq_cst);
  do {
    if (max_ops_ != 0 && ops >= max_ops_) return false;
  } while (!ops_.compare_exchange_weak(ops, ops + 1, std::memory_order_seq_cst));
  return true;
}

bool Budget::add_bytes(std::size_t bytes) noexcept {
  if (max_bytes_ == 0 || bytes == 0) return true;
  std::size_t held = bytes_.load(std::memory_order_seq_cst);
  do {
    if (held != 0 && (held > max_bytes_ || bytes > max_bytes_ - held)) return false;
  } while (!bytes_.compare_exchange_weak(held, held + bytes, std::memory_order_seq_cst));
  return true;
}

bool Budget::fits(std::size_t bytes) noexcept {
  if (!add_op()) return false;
  if (add_bytes(bytes)) return true;
  ops_.fetch_sub(1, std::memory_order_seq_cst);
  return false;
}

bool Budget::try_acquire(std::size_t bytes) noexcept {
  if (waiting_.load(std::memory_order_seq_cst) > 0) return false;
  if (fits(bytes)) return true;
  wake_first();  // the first waiting thread may have missed room that fits() held for a moment
  return false;
}

void Budget::acquire(std::size_t bytes) {
  for (int spins = 0; spins < kSpins; ++spins) {
    if (try_acquire(bytes)) return;
    cpu_relax();
  }
  std::condition_variable wake;
  std::unique_lock lock(mutex_);
  queue_.push_back(&wake);
  waiting_.fetch_add(1, std::memory_order_seq_cst);
  while (queue_.front() != &wake) wake.wait(lock);
  if (!fits(bytes)) {
    nap(wake, lock);
    while (!fits(bytes)) wake.wait(lock);
  }
  queue_.pop_front();
  waiting_.fetch_sub(1, std::memory_order_seq_cst);
  if (!queue_.empty()) queue_.front()->notify_one();
}

void Budget::acquire_anyway(std::size_t bytes) noexcept {
  ops_.fetch_add(1, std::memory_order_seq_cst);
  if (max_bytes_ != 0) bytes_.fetch_add(bytes, std::memory_order_seq_cst);
}

bool Budget::has_batch() const noexcept {
  const auto has_room = [](std::size_t most, const std::atomic<std::size_t>& now) {
    return most == 0 || now.load(std::memory_order_seq_cst) <= most - most / 4;
  };
  return has_room(max_ops_, ops_) && has_room(max_bytes_, bytes_);
}

// seq_cst for the reason that budget.h gives for waiting_; the end of the nap is step (1).
void Budget::nap(std::condition_variable& wake, std::unique_lock<std::mutex>& lock) {
  napping_.store(true, std::memory_order_seq_cst);
  if (!has_batch()) wait_briefly(wake, lock);
  napping_.store(false, std::memory_order_seq_cst);
}

void Budget::release(std::size_t bytes, std::uint64_t by) noexcept {
  released_by_.store(by, std::memory_order_relaxed);
  ops_.fetch_sub(1, std::memory_order_seq_cst);
  if (max_bytes_ != 0 && bytes != 0) bytes_.fetch_sub(bytes, std::memory_order_seq_cst);
  wake_first();
}

void Budget::wake_first() noexcept {
  if (waiting_.load(std::memory_order_seq_cst) == 0) return;
  if (napping_.load(std::memory_order_seq_cst) && !has_batch()) return;
  std::lock_guard guard(mutex_);
  if (!queue_.empty()) queue_.front()->notify_one();
}

}  // namespace heddle::detail
