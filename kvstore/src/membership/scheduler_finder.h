// How a process finds a scheduler that is now here, now there.
#pragma once

#include <optional>
#include <string>

namespace heddle::kv_detail {

struct SchedulerFound {
  std::string address{};  // HOST:PORT; empty: there is none now
  std::string why{};      // there is none
};

// One thread; nothing here blocks.
class SchedulerFinder {
 public:
  virtual ~SchedulerFinder() = default;
  virtual void look() = 0;  // begins
  // What the last look() has found; empty: that look is not over yet.
  virtual std::optional<SchedulerFound> answer() = 0;
};

}  // namespace heddle::kv_detail
