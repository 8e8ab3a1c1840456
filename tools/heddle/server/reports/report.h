// The output of `heddle server status`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/reports/metrics.h"

namespace heddle::tool {

// Replaces control characters of a name by '?': the name is shown on a terminal and may come from a process
// that is not authenticated.
std::string printable(const std::string& name);

// A worker is a straggler if its clock is more than this behind the median of the clocks of its job.
constexpr std::int64_t kStragglerClocks = 2;

struct Straggler {
  std::string job;
  int worker = 0;
  std::int64_t clock = 0, median = 0;
  bool connected = false;
};

// The stragglers, the one farthest behind first. The median is over the job's connected workers; for an even
// number of workers it is the lower of the two middle clocks.
std::vector<Straggler> stragglers_of(const ServerStats& stats);

// The status of a server for people. Rates are computed between the two samples, by the server's clock. They
// are left out if `before` is null, or if the server was restarted after that sample.
std::string status_text(const ServerSnapshot& now, const ServerSnapshot* before);
std::string status_json(const ServerSnapshot& now, const ServerSnapshot* before);

}  // namespace heddle::tool
