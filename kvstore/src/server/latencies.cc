#include "server/latencies.h"

#include <algorithm>
#include <numeric>

namespace heddle {

std::uint64_t LatencyHistogram::count() const {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

double LatencyHistogram::quantile(double share) const {
  const double wanted = share * static_cast<double>(count());
  double below = 0;
  for (std::size_t bucket = 0; bucket < kBounds.size(); ++bucket) {
    const auto here = static_cast<double>(counts[bucket]);
    if (here > 0 && below + here >= wanted) {
      const double least = bucket == 0 ? 0 : kBounds[bucket - 1];
      return least + (kBounds[bucket] - least) * std::max(wanted - below, 0.0) / here;
    }
    below += here;
  }
  return below < wanted ? kBounds.back() : 0;
}

namespace kv_detail {
namespace {

constexpr const char* kKindNames[] = {"collective", "init", "pull", "push", "state"};
constexpr std::size_t kUnmeasured = std::size(kKindNames);

std::size_t index_of(Kind kind) {
  switch (kind) {
    case Kind::barrier:
    case Kind::set_optimizer:
      return 0;
    case Kind::init:
      return 1;
    case Kind::pull:
    case Kind::pull_many:
      return 2;
    case Kind::push:
    case Kind::push_many:
      return 3;
    case Kind::get_state:
    case Kind::set_state:
      return 4;
    default:
      return kUnmeasured;
  }
}

// The result is never negative. A caller's `now` may be a little older than the last reading of the clock.
double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::max(std::chrono::duration<double>(end - begin).count(), 0.0);
}

void add(LatencyHistogram& to, double seconds) {
  std::size_t bucket = 0;
  while (bucket < LatencyHistogram::kBounds.size() && seconds > LatencyHistogram::kBounds[bucket]) ++bucket;
  ++to.counts[bucket];
  to.seconds += seconds;
}

}  // namespace

void Latencies::count_sent(Clock::time_point now) {
  for (const RequestTimes& one : sent_) {
    const std::size_t kind = index_of(one.kind);
    if (kind == kUnmeasured) continue;
    const double workers = seconds_between(one.arrived, one.answerable),
                 server = seconds_between(one.answerable, now);
    add(times_[kind].total, workers + server);
    add(times_[kind].server, server);
    add(times_[kind].workers, workers);
  }
  sent_.clear();
}

std::vector<RequestStats> Latencies::stats() const {
  static_assert(std::size(kKindNames) == kKinds);
  std::vector<RequestStats> all;
  for (std::size_t kind = 0; kind < kKinds; ++kind)
    all.push_back({kKindNames[kind], times_[kind].total, times_[kind].server, times_[kind].workers});
  return all;
}

}  // namespace kv_detail
}  // namespace heddle
