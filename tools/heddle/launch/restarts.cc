#include "restarts.h"

#include <algorithm>

namespace heddle::tool {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::seconds kSoon = 2s;  // a process that lives longer is restarted without a pause
constexpr Restarts::Duration kFirstPause = 100ms, kLongestPause = 5s;

}  // namespace

std::optional<Restarts::Duration> Restarts::after_death(Time started, Time now) {
  while (!recent_.empty() && now - recent_.front() >= 1min) recent_.pop_front();
  if (recent_.size() >= static_cast<std::size_t>(most_)) return std::nullopt;
  recent_.push_back(now);
  pause_ = now - started >= kSoon ? 0ms : std::clamp(2 * pause_, kFirstPause, kLongestPause);
  return pause_;
}

}  // namespace heddle::tool
