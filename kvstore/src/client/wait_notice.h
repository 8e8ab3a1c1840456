// Decides when to log that something waits.
#pragma once

#include <chrono>

namespace heddle::kv_detail {

class WaitNotice {
 public:
  using Duration = std::chrono::steady_clock::duration;

  // `waited`: time since the wait began. Returns true once after 5 s of waiting, and then every 15 s.
  bool due(Duration waited) {
    if (waited < kFirst) next_ = kFirst;
    if (waited < next_) return false;
    next_ = waited + kEach;
    return true;
  }

 private:
  static constexpr std::chrono::seconds kFirst{5}, kEach{15};
  Duration next_ = kFirst;
};

}  // namespace heddle::kv_detail
