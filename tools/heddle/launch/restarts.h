// When a job's server or scheduler that has died is restarted.
#pragma once

#include <chrono>
#include <deque>
#include <optional>

namespace heddle::tool {

class Restarts {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::milliseconds;

  explicit Restarts(int most_a_minute) : most_(most_a_minute) {}
  // Reports that the process started at `started` has died at `now`. Returns the time until the restart,
  // which grows while processes die soon after their start. Empty: too many restarts within a minute.
  std::optional<Duration> after_death(Time started, Time now);

 private:
  int most_;
  Duration pause_{0};
  std::deque<Time> recent_{};  // times of restarts within the last minute
};

}  // namespace heddle::tool
