// How long the requests of workers take on a server.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace heddle {

// Counts requests by the time that they took.
struct LatencyHistogram {
  // Upper bounds of the buckets, in seconds.
  static constexpr std::array<double, 19> kBounds = {50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3,
                                                     10e-3, 25e-3,  50e-3,  100e-3, 0.25, 0.5,    1,
                                                     2.5,   5,      10,     30,     60};
  // counts[i]: number of requests that took more than kBounds[i - 1] and at most kBounds[i] seconds. The last
  // count has the requests that took more than the last bound.
  std::array<std::uint64_t, kBounds.size() + 1> counts{};
  double seconds = 0;  // sum of the times of all requests

  std::uint64_t count() const;  // the sum of `counts`
  // The time in seconds within which this share of the requests (0 to 1) was done. The time is interpolated
  // within a bucket, and never more than the last bound. 0 without requests.
  double quantile(double share) const;
};

// The times of requests of one kind, from their arrival at the server until the reply is handed to the
// connection.
struct RequestStats {
  std::string kind;  // "collective", "init", "pull", "push" or "state"
  // server: time in which the server worked, or the request waited for the server or its backup.
  // workers: time in which the request waited for other workers. total: server + workers.
  LatencyHistogram total{}, server{}, workers{};
};

}  // namespace heddle
