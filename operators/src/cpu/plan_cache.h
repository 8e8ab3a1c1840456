// A cache of oneDNN's primitives by shape, since making one takes far longer than running it.
#pragma once

#include <map>
#include <memory>
#include <mutex>

namespace heddle::cpu_kernels {

// Locked while a plan is made; a PlanCache's mutex may be locked meanwhile.
inline std::mutex& plan_making() {
  static std::mutex mutex;
  return mutex;
}

// Plans by key; Plan is constructible from Key. Thread-safe. A plan lives as long as a pointer to it, also when the
// cache has dropped it.
template <class Key, class Plan> class PlanCache {
 public:
  std::shared_ptr<const Plan> get(const Key& key) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = plans_.find(key);
      if (found != plans_.end()) return found->second;
    }
    // The plan is made without holding mutex_, since that takes milliseconds. All caches together make one
    // plan at a time: primitives made at the same time share parts through oneDNN's own cache.
    const std::lock_guard one(plan_making());
    auto made = std::make_shared<const Plan>(key);
    const std::lock_guard lock(mutex_);
    if (plans_.size() >= kMost) plans_.clear();  // bounds the memory of a program whose shapes are always new
    return plans_.try_emplace(key, std::move(made)).first->second;
  }

 private:
  static constexpr std::size_t kMost = 512;
  std::mutex mutex_;  // guards plans_; no other mutex is locked while it is held
  std::map<Key, std::shared_ptr<const Plan>> plans_;
};

}  // namespace heddle::cpu_kernels
