// The carriers of an engine, see carrier.h.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include <heddle/carrier.h>

namespace heddle::detail {

// Thread-safe.
class Carriers {
 public:
  void add(std::weak_ptr<Carrier> carrier) {
    std::lock_guard guard(mutex_);
    std::erase_if(carriers_, [](const auto& other) { return other.expired(); });
    carriers_.push_back(std::move(carrier));
    any_.store(true, std::memory_order_release);
  }
  bool any() const { return any_.load(std::memory_order_acquire); }
  // Without the mutex: a carrier may take long. Holds no other one meanwhile: what it waits for may be that one's end.
  void carry_for(VarState& state, const std::atomic<std::uint32_t>& over) {
    detail::retain(&state);
    const Var var = Var::adopt(&state);
    std::vector<std::weak_ptr<Carrier>> all;
    {
      std::lock_guard guard(mutex_);
      all = carriers_;
    }
    for (const std::weak_ptr<Carrier>& weak : all) {
      if (const std::shared_ptr<Carrier> carrier = weak.lock()) carrier->carry_for(var, over);
    }
  }

 private:
  std::atomic<bool> any_{false};  // most engines have none, and pay for one load
  std::mutex mutex_;              // guards carriers_; nothing is locked under it
  std::vector<std::weak_ptr<Carrier>> carriers_;
};

}  // namespace heddle::detail
