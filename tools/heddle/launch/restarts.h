// How soon a server of a job, or its scheduler, is started anew when it has died.
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
  // A process that was started at `started` has died at `now`. The time until the next one is to be started: longer each time
  // if processes die soon after their start. Empty: there have been too many within a minute.
  std::optional<Duration> after_death(Time started, Time now);

 private:
  int most_;
  Duration pause_{0};
  std::deque<Time> recent_{};  // within the last minute
};

}  // namespace heddle::tool
