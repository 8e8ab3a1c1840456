// Primitives take far longer to make than to run, so each shape's is made once.
#pragma once

#include <map>
#include <memory>
#include <mutex>

namespace heddle::cpu_kernels {

// Held while a plan is made; a PlanCache's mutex may be locked inside.
inline std::mutex& plan_making() {
  static std::mutex mutex;
  return mutex;
}

// Plans by key; Plan is constructible from Key. Thread-safe; plans stay valid for as long as someone holds them.
template <class Key, class Plan> class PlanCache {
 public:
  std::shared_ptr<const Plan> get(const Key& key) {
    {
      const std::lock_guard lock(mutex_);
      const auto found = plans_.find(key);
      if (found != plans_.end()) return found->second;
    }
    // Made outside mutex_: it takes milliseconds. One at a time, of whatever kind: the library's own cache shares what
    // primitives are made of between threads.
    const std::lock_guard one(plan_making());
    auto made = std::make_shared<const Plan>(key);
    const std::lock_guard lock(mutex_);
    if (plans_.size() >= kMost) plans_.clear();  // a program whose shapes never end would keep them all
    return plans_.try_emplace(key, std::move(made)).first->second;
  }

 private:
  static constexpr std::size_t kMost = 512;
  std::mutex mutex_;  // guards plans_; nothing else is locked under it
  std::map<Key, std::shared_ptr<const Plan>> plans_;
};

}  // namespace heddle::cpu_kernels
