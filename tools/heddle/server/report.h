// What `heddle server status` prints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/metrics.h"

namespace heddle::tool {

// A name with ? for control characters: a stranger may have chosen it, and it goes to a terminal.
std::string printable(const std::string& name);

// More clocks than this behind the median of its job make a worker a straggler.
constexpr std::int64_t kStragglerClocks = 2;

struct Straggler {
  std::string job;
  int worker = 0;
  std::int64_t clock = 0, median = 0;
  bool connected = false;
};

// The median is that of the job's workers that are connected, the lower of two in the middle. Farthest behind first.
std::vector<Straggler> stragglers_of(const ServerStats& stats);

// Rates are those between the two samples, by the server's own clock; there are none without `before`, or if the server
// has started again in between.
std::string status_text(const ServerSnapshot& now, const ServerSnapshot* before);
std::string status_json(const ServerSnapshot& now, const ServerSnapshot* before);

}  // namespace heddle::tool
