#include "scheduler/region.h"

#include <algorithm>

namespace heddle::detail {

void Region::work() noexcept {
  for (;;) {
    const std::int64_t begin = next_.fetch_add(grain_, std::memory_order_relaxed);
    if (begin >= count_) return;
    try {
      body_(begin, std::min(begin + grain_, count_));
    } catch (...) {
      next_.store(count_, std::memory_order_relaxed);
      std::lock_guard guard(error_lock_);
      if (!error_) error_ = std::current_exception();
    }
  }
}

bool Region::quiet_soon() const {
  // acquire, here and below: pairs with leave(); what the guests computed is seen.
  for (int spins = 0; spins < 2000; ++spins) {
    if (guests_.load(std::memory_order_acquire) == 0) return true;
    cpu_relax();
  }
  return false;
}

void Region::await_guests() const {
  while (const std::uint32_t guests = guests_.load(std::memory_order_acquire)) guests_.wait(guests);
}

void Region::rethrow() const {
  if (error_) std::rethrow_exception(error_);
}

void Regions::open(const std::shared_ptr<Region>& region) {
  std::lock_guard guard(lock_);
  regions_.push_back(region);
  open_.store(regions_.size(), std::memory_order_seq_cst);  // see Parking
}

void Regions::close(const Region* region) {
  std::shared_ptr<Region> last;  // freed outside the lock
  std::lock_guard guard(lock_);
  const auto at =
      std::find_if(regions_.begin(), regions_.end(), [&](const auto& one) { return one.get() == region; });
  if (at == regions_.end()) return;
  last = std::move(*at);
  regions_.erase(at);
  open_.store(regions_.size(), std::memory_order_seq_cst);
}

std::shared_ptr<Region> Regions::enter() {
  if (empty()) return nullptr;
  std::lock_guard guard(lock_);
  if (regions_.empty()) return nullptr;
  std::shared_ptr<Region> region = regions_.front();
  region->guests_.fetch_add(
      1, std::memory_order_relaxed);  // ordered by the lock: the owner closes before it waits
  return region;
}

void Regions::leave(Region& region) {
  // seq_cst: notify_all() looks for waiters next, and the waiter looks here once it is counted as one.
  region.guests_.fetch_sub(1, std::memory_order_seq_cst);
  region.guests_.notify_all();
}

}  // namespace heddle::detail
