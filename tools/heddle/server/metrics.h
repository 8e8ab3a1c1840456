// The metrics of a server, as Prometheus reads them. docs/metrics.md lists them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <heddle/server.h>

namespace heddle::tool {

// A server as its metrics show it.
struct ServerSnapshot {
  std::string address{}, transport{};
  int number = 0, servers = 1;
  std::uint64_t memory_limit = 0;    // bytes; 0: none
  std::uint64_t workers_hidden = 0;  // of metrics_text: those beyond kMostWorkers
  ServerStats stats{};
};

// So many workers get series of their own, those that are connected first: the rest is counted only. A database of metrics
// suffers more from a million series than somebody from a worker that is not drawn.
constexpr std::size_t kMostWorkers = 2000;

// In the text format 0.0.4.
std::string metrics_text(ServerSnapshot snapshot);

// What metrics_text has made of it. Names that are not known are skipped. Throws std::runtime_error for text that is no
// metrics, or not those of a server.
ServerSnapshot snapshot_from(std::string_view text);

}  // namespace heddle::tool
