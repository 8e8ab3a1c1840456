// Finds a scheduler whose address may change.
#pragma once

#include <optional>
#include <string>

namespace heddle::kv_detail {

struct SchedulerFound {
  std::string address{};  // HOST:PORT; empty: no scheduler leads now
  std::string why{};      // why there is no scheduler
};

// All functions are called on one thread. None of them blocks.
class SchedulerFinder {
 public:
  virtual ~SchedulerFinder() = default;
  virtual void look() = 0;  // begins to look for the scheduler
  // The result of the last look(); empty: there is no result yet.
  virtual std::optional<SchedulerFound> answer() = 0;
};

}  // namespace heddle::kv_detail
