// The output of `heddle server status`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/reports/metrics.h"

namespace heddle::tool {

// Replaces control characters by ?, since the name may be unauthenticated input, and it goes to a terminal.
std::string printable(const std::string& name);

// More clocks than this behind the median of its job make a worker a straggler.
constexpr std::int64_t kStragglerClocks = 2;

struct Straggler {
  std::string job;
  int worker = 0;
  std::int64_t clock = 0, median = 0;
  bool connected = false;
};

// Stragglers, farthest behind first. The median is that of the job's connected workers, the lower if even.
std::vector<Straggler> stragglers_of(const ServerStats& stats);

// Rates are those between the two samples, by the server's clock. There are none without `before`, or if the
// server was restarted in between.
std::string status_text(const ServerSnapshot& now, const ServerSnapshot* before);
std::string status_json(const ServerSnapshot& now, const ServerSnapshot* before);

}  // namespace heddle::tool
