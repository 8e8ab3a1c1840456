// A server's statistics with made-up numbers, for tests.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "server/reports/metrics.h"

namespace heddle::test {

inline WorkerStats worker(const std::string& job, int rank, std::int64_t clock, bool connected = true) {
  WorkerStats one;
  one.job = job;
  one.rank = rank;
  one.clock = clock;
  one.connected = connected;
  return one;
}

// The pairs {bucket, count} of a latency histogram: how many requests have taken a time of the bucket.
using Buckets = std::initializer_list<std::pair<std::size_t, std::uint64_t>>;
inline void add_times(LatencyHistogram& to, Buckets buckets, double seconds) {
  for (const auto& [bucket, count] : buckets) to.counts[bucket] += count;
  to.seconds += seconds;
}

// The statistics of a server with two workers of one job. All numbers differ, so that a mix-up shows.
inline tool::ServerSnapshot hand_made() {
  tool::ServerSnapshot result{.address = "10.0.0.1:9463", .transport = "net", .number = 1, .servers = 2};
  result.memory_limit = std::uint64_t{8} << 30;
  ServerStats& stats = result.stats;
  stats.uptime = 3723.5;
  stats.jobs = 1, stats.keys = 120;
  stats.memory_used = std::uint64_t{6} << 30;
  stats.value_bytes = std::uint64_t{3} << 29, stats.state_bytes = std::uint64_t{3} << 30,
  stats.waiting_bytes = 4096;
  stats.pushes = 1000, stats.pulls = 990, stats.duplicates = 3, stats.refused = 2, stats.rounds = 500;
  stats.worst_staleness = 4;
  stats.unauthorized = 6;
  WorkerStats first = worker("default", 0, 21), second = worker("default", 1, 17, false);
  first.silent = 0.25, first.pushes = 600, first.pulls = 590, first.pulls_waiting = 1;
  first.bytes_received = 5'000'000, first.bytes_sent = 4'000'000;
  second.silent = 61, second.pushes = 400, second.pulls = 400;
  second.bytes_received = 3'000'000, second.bytes_sent = 2'000'000;
  stats.workers = {first, second};
  stats.shards = {{.shard = 0, .epoch = 3, .backup = true},
                  {.shard = 1, .epoch = 3, .primary = true, .synced = true, .unconfirmed_bytes = 512}};
  RequestStats pull{.kind = "pull"}, push{.kind = "push"};
  add_times(pull.total, {{0, 490}, {9, 500}}, 17.25);
  add_times(pull.server, {{0, 980}, {4, 10}}, 0.25);
  add_times(pull.workers, {{0, 495}, {9, 495}}, 17);
  add_times(push.total, {{0, 950}, {3, 50}}, 0.5);
  add_times(push.server, {{0, 950}, {3, 50}}, 0.5);
  add_times(push.workers, {{0, 1000}}, 0);
  stats.requests = {pull, push};
  return result;
}

}  // namespace heddle::test
