// Finds a scheduler whose address may change.
#pragma once

#include <optional>
#include <string>

namespace heddle::kv_detail {

struct SchedulerFound {
  std::string address{};  // HOST:PORT; empty: no scheduler leads now
  std::string why{};      // why there is no scheduler
};

// For one thread. No function blocks.
class SchedulerFinder {
 public:
  virtual ~SchedulerFinder() = default;
  virtual void look() = 0;  // begins to look for the scheduler
  // The result of the last look(); empty: it is not known yet.
  virtual std::optional<SchedulerFound> answer() = 0;
};

}  // namespace heddle::kv_detail
