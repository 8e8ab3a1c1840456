// The metrics of a server, as Prometheus reads them. docs/metrics.md lists them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <heddle/server.h>

namespace heddle::tool {

// The data from which a server's metrics are made.
struct ServerSnapshot {
  std::string address{}, transport{};
  int number = 0, servers = 1;
  std::uint64_t memory_limit = 0;    // the server's memory limit in bytes; 0: no limit
  std::uint64_t workers_hidden = 0;  // number of workers that metrics_text omits, beyond kMostWorkers
  ServerStats stats{};
};

// How many workers have metrics of their own, connected workers first; further workers are only counted. More
// series would overload a metrics database.
constexpr std::size_t kMostWorkers = 2000;

// Formats the metrics in Prometheus' text format 0.0.4.
std::string metrics_text(ServerSnapshot snapshot);

// Parses the result of metrics_text. Skips unknown names. Throws std::runtime_error for any other text.
ServerSnapshot snapshot_from(std::string_view text);

}  // namespace heddle::tool
