#include "report.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "simulate/units.h"

namespace heddle::tool {
namespace {

using Row = std::vector<std::string>;
using nlohmann::ordered_json;

std::string format(const char* pattern, double value) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

std::string bytes(double value) { return bytes_to_text(value); }
std::string bytes(std::uint64_t value) { return bytes_to_text(static_cast<double>(value)); }

std::string duration(double seconds) {
  if (seconds < 120) return format("%.1f s", seconds);
  const auto minutes = static_cast<long long>(seconds / 60);
  if (minutes < 120) return std::to_string(minutes) + " min";
  const std::string rest = std::to_string(minutes % 60) + " min";
  if (minutes < 48 * 60) return std::to_string(minutes / 60) + " h " + rest;
  return std::to_string(minutes / 1440) + " d " + std::to_string(minutes / 60 % 24) + " h";
}

std::string counted(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// The rates per second at which counters have grown between two samples of a server.
class Rates {
 public:
  Rates(const ServerSnapshot& now, const ServerSnapshot* before) {
    if (!before || before->stats.uptime >= now.stats.uptime) return;
    seconds_ = now.stats.uptime - before->stats.uptime;
    server_ = &before->stats;
    for (const WorkerStats& one : before->stats.workers) workers_[{one.job, one.rank}] = &one;
  }
  std::optional<double> of(const ServerStats& now, std::uint64_t ServerStats::*counter) const {
    return server_ ? rate(now.*counter, server_->*counter) : std::nullopt;
  }
  std::optional<double> of(const WorkerStats& now, std::uint64_t WorkerStats::*counter) const {
    const auto found = workers_.find({now.job, now.rank});
    return found == workers_.end() ? std::nullopt : rate(now.*counter, found->second->*counter);
  }

 private:
  std::optional<double> rate(std::uint64_t now, std::uint64_t before) const {
    if (now < before) return std::nullopt;  // the counter began anew, since the worker was restarted
    return static_cast<double>(now - before) / seconds_;
  }

  double seconds_ = 0;
  const ServerStats* server_ = nullptr;
  std::map<std::pair<std::string, int>, const WorkerStats*> workers_;
};

std::map<std::string, std::int64_t> medians_of(const ServerStats& stats) {
  std::map<std::string, std::vector<std::int64_t>> clocks;
  for (const WorkerStats& one : stats.workers) {
    if (one.connected) clocks[one.job].push_back(one.clock);
  }
  std::map<std::string, std::int64_t> result;
  for (auto& [job, all] : clocks) {
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>((all.size() - 1) / 2);
    std::nth_element(all.begin(), middle, all.end());
    result[job] = *middle;
  }
  return result;
}

std::string with_rate(std::uint64_t count, const std::string& noun, std::optional<double> rate) {
  return std::to_string(count) + " " + noun + (rate ? " (" + format("%.4g", *rate) + "/s)" : "");
}

// A text about the shards of this server; empty if no scheduler assigns shards.
std::string parts_text(const std::vector<ShardStats>& shards) {
  std::string text;
  for (const ShardStats& one : shards) {
    const std::string part = "part " + std::to_string(one.shard) + ": ";
    if (one.primary) {
      text += part + "served here, " + (one.synced ? "the backup has all" : "no other server has all of it");
      if (one.unconfirmed_bytes) text += ", " + bytes(one.unconfirmed_bytes) + " not confirmed";
      text += "\n";
    } else if (one.backup) {
      text += part + "a copy, for when its server is lost\n";
    }
  }
  return text;
}

std::string head(const ServerSnapshot& now, const Rates& rates) {
  const ServerStats& stats = now.stats;
  std::string text = now.address + ": server " + std::to_string(now.number) + " of " +
                     std::to_string(now.servers) + ", transport " + now.transport + ", up " +
                     duration(stats.uptime) + (stats.draining ? ", draining" : "") + "\n";
  text += counted(stats.jobs, "job") + ", " + counted(stats.keys, "key") + "; " + bytes(stats.value_bytes) +
          " of values, " + bytes(stats.state_bytes) + " of optimizer state, " + bytes(stats.waiting_bytes) +
          " of pushes that wait" + (now.memory_limit ? "; at most " + bytes(now.memory_limit) : "") + "\n";
  text += with_rate(stats.pushes, "pushes", rates.of(stats, &ServerStats::pushes)) + ", " +
          with_rate(stats.pulls, "pulls", rates.of(stats, &ServerStats::pulls)) + ", " +
          with_rate(stats.rounds, "rounds", rates.of(stats, &ServerStats::rounds)) + "; " +
          with_rate(stats.duplicates, "duplicates", {}) + ", " + with_rate(stats.refused, "refused", {}) +
          ", " + with_rate(stats.unauthorized, "unauthorized", {}) + "; worst staleness " +
          std::to_string(stats.worst_staleness) + "\n";
  return text + parts_text(stats.shards);
}

std::string traffic(std::uint64_t all, std::optional<double> rate) {
  return bytes(all) + (rate ? ", " + bytes(*rate) + "/s" : "");
}

Row row(const WorkerStats& one, const std::map<std::string, std::int64_t>& medians, const Rates& rates) {
  const auto median = medians.find(one.job);
  const std::int64_t behind =
      median == medians.end() ? 0 : std::max<std::int64_t>(median->second - one.clock, 0);
  return {printable(one.job),
          std::to_string(one.rank),
          one.connected ? "connected" : "gone",
          std::to_string(one.clock),
          behind ? std::to_string(behind) : "-",
          traffic(one.bytes_received, rates.of(one, &WorkerStats::bytes_received)),
          traffic(one.bytes_sent, rates.of(one, &WorkerStats::bytes_sent)),
          std::to_string(one.pulls_waiting),
          duration(one.silent)};
}

std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const Row& one : rows) {
    for (std::size_t i = 0; i < one.size(); ++i) widths[i] = std::max(widths[i], one[i].size());
  }
  std::string text;
  for (const Row& one : rows) {
    for (std::size_t i = 0; i + 1 < one.size(); ++i)
      text += one[i] + std::string(widths[i] + 2 - one[i].size(), ' ');
    text += one.back() + "\n";
  }
  return text;
}

std::string workers_text(const ServerSnapshot& now, const Rates& rates) {
  if (now.stats.workers.empty()) return "no worker has been here\n";
  const auto medians = medians_of(now.stats);
  std::vector<Row> rows = {
      {"JOB", "WORKER", "STATE", "CLOCK", "BEHIND", "RECEIVED", "SENT", "PULLS WAITING", "SILENT FOR"}};
  for (const WorkerStats& one : now.stats.workers) rows.push_back(row(one, medians, rates));
  std::string text = table(rows);
  if (now.workers_hidden)
    text += "and " + counted(now.workers_hidden, "worker") + " that the metrics only count\n";
  return text;
}

std::string stragglers_text(const ServerStats& stats) {
  std::string text;
  for (const Straggler& one : stragglers_of(stats)) {
    text += "  worker " + std::to_string(one.worker) + " of job " + printable(one.job) + ": clock " +
            std::to_string(one.clock) + ", " + std::to_string(one.median - one.clock) + " behind the median" +
            (one.connected ? "" : ", gone") + "\n";
  }
  return text.empty() ? "" : "\nStragglers:\n" + text;
}

LatencyHistogram between(const LatencyHistogram& now, const LatencyHistogram& before) {
  LatencyHistogram result = now;
  for (std::size_t bucket = 0; bucket < result.counts.size(); ++bucket)
    result.counts[bucket] -= std::min(before.counts[bucket], now.counts[bucket]);
  result.seconds = std::max(now.seconds - before.seconds, 0.0);
  return result;
}

// Statistics of requests, and the period in which they were counted, as text.
struct Requests {
  std::string when = "since the start";
  std::vector<RequestStats> all;
};

// The requests between the two samples. If there were none, or if `before` is null, all requests since the
// server's start.
Requests requests_of(const ServerSnapshot& now, const ServerSnapshot* before) {
  Requests result{.all = now.stats.requests};
  if (!before || before->stats.uptime >= now.stats.uptime) return result;
  std::vector<RequestStats> recent = now.stats.requests;
  bool some = false;
  for (RequestStats& one : recent) {
    for (const RequestStats& other : before->stats.requests) {
      if (other.kind != one.kind) continue;
      one = {one.kind, between(one.total, other.total), between(one.server, other.server),
             between(one.workers, other.workers)};
    }
    some = some || one.total.count() > 0;
  }
  if (!some) return result;
  return {"of the last " + duration(now.stats.uptime - before->stats.uptime), std::move(recent)};
}

std::string time_text(const LatencyHistogram& times, double share) {
  const double seconds = times.quantile(share);
  if (times.seconds == 0) return "-";
  if (seconds <= times.kBounds.front()) return "< 50 us";
  if (seconds >= times.kBounds.back()) return "> 60 s";
  if (seconds < 1e-3) return format("%.0f us", seconds * 1e6);
  return seconds < 1 ? format("%.3g ms", seconds * 1e3) : format("%.3g s", seconds);
}

std::string requests_text(const Requests& requests) {
  std::vector<Row> rows = {{"REQUEST", "COUNT", "SERVER P50", "SERVER P99", "WAIT P50", "WAIT P99"}};
  for (const RequestStats& one : requests.all) {
    if (one.total.count() == 0) continue;
    rows.push_back({printable(one.kind), std::to_string(one.total.count()), time_text(one.server, 0.5),
                    time_text(one.server, 0.99), time_text(one.workers, 0.5), time_text(one.workers, 0.99)});
  }
  if (rows.size() == 1) return "";
  return "Requests " + requests.when + ", and their wait for other workers:\n" + table(rows) + "\n";
}

ordered_json times_json(const LatencyHistogram& times) {
  return {{"seconds", times.seconds},
          {"p50_seconds", times.quantile(0.5)},
          {"p99_seconds", times.quantile(0.99)}};
}

ordered_json requests_json(const Requests& requests) {
  ordered_json result = ordered_json::array();
  for (const RequestStats& one : requests.all)
    result.push_back({{"request", one.kind},
                      {"count", one.total.count()},
                      {"total", times_json(one.total)},
                      {"server", times_json(one.server)},
                      {"wait", times_json(one.workers)}});
  return result;
}

ordered_json or_null(std::optional<double> rate) {
  return rate ? ordered_json(*rate) : ordered_json(nullptr);
}

ordered_json worker_json(const WorkerStats& one, const Rates& rates) {
  return {{"job", one.job},
          {"worker", one.rank},
          {"connected", one.connected},
          {"silent_seconds", one.silent},
          {"clock", one.clock},
          {"pulls_waiting", one.pulls_waiting},
          {"pushes", one.pushes},
          {"pulls", one.pulls},
          {"received_bytes", one.bytes_received},
          {"sent_bytes", one.bytes_sent},
          {"received_bytes_per_second", or_null(rates.of(one, &WorkerStats::bytes_received))},
          {"sent_bytes_per_second", or_null(rates.of(one, &WorkerStats::bytes_sent))}};
}

ordered_json server_json(const ServerSnapshot& now, const Rates& rates) {
  const ServerStats& stats = now.stats;
  return {{"address", now.address},
          {"transport", now.transport},
          {"number", now.number},
          {"servers", now.servers},
          {"uptime_seconds", stats.uptime},
          {"draining", stats.draining},
          {"jobs", stats.jobs},
          {"keys", stats.keys},
          {"value_bytes", stats.value_bytes},
          {"state_bytes", stats.state_bytes},
          {"waiting_bytes", stats.waiting_bytes},
          {"memory_used_bytes", stats.memory_used},
          {"memory_limit_bytes", now.memory_limit},
          {"pushes", stats.pushes},
          {"pulls", stats.pulls},
          {"rounds", stats.rounds},
          {"duplicates", stats.duplicates},
          {"refused", stats.refused},
          {"unauthorized", stats.unauthorized},
          {"worst_staleness_clocks", stats.worst_staleness},
          {"pushes_per_second", or_null(rates.of(stats, &ServerStats::pushes))},
          {"pulls_per_second", or_null(rates.of(stats, &ServerStats::pulls))},
          {"rounds_per_second", or_null(rates.of(stats, &ServerStats::rounds))},
          {"workers_hidden", now.workers_hidden}};
}

}  // namespace

std::string printable(const std::string& name) {
  std::string result;
  for (std::size_t at = 0; at < name.size(); ++at) {
    const auto byte = static_cast<unsigned char>(name[at]);
    const auto next = static_cast<unsigned char>(at + 1 < name.size() ? name[at + 1] : 0);
    // The control characters U+0080 to U+009F, which have two bytes in UTF-8.
    const bool second_set = byte == 0xC2 && next >= 0x80 && next < 0xA0;
    result += byte < ' ' || byte == 0x7F || second_set ? '?' : name[at];
    at += second_set ? 1 : 0;
  }
  return result;
}

std::vector<Straggler> stragglers_of(const ServerStats& stats) {
  const auto medians = medians_of(stats);
  std::vector<Straggler> result;
  for (const WorkerStats& one : stats.workers) {
    const auto median = medians.find(one.job);
    if (median != medians.end() && median->second - one.clock > kStragglerClocks)
      result.push_back({one.job, one.rank, one.clock, median->second, one.connected});
  }
  std::stable_sort(result.begin(), result.end(), [](const Straggler& a, const Straggler& b) {
    return a.median - a.clock > b.median - b.clock;
  });
  return result;
}

std::string status_text(const ServerSnapshot& now, const ServerSnapshot* before) {
  const Rates rates(now, before);
  return head(now, rates) + "\n" + requests_text(requests_of(now, before)) + workers_text(now, rates) +
         stragglers_text(now.stats);
}

std::string status_json(const ServerSnapshot& now, const ServerSnapshot* before) {
  const Rates rates(now, before);
  ordered_json result = server_json(now, rates);
  result["workers"] = ordered_json::array();
  for (const WorkerStats& one : now.stats.workers) result["workers"].push_back(worker_json(one, rates));
  result["shards"] = ordered_json::array();
  for (const ShardStats& one : now.stats.shards) {
    result["shards"].push_back({{"shard", one.shard},
                                {"primary", one.primary},
                                {"backup", one.backup},
                                {"synced", one.synced},
                                {"unconfirmed_bytes", one.unconfirmed_bytes}});
  }
  const Requests requests = requests_of(now, before);
  result["requests_when"] = requests.when;
  result["requests"] = requests_json(requests);
  result["stragglers"] = ordered_json::array();
  for (const Straggler& one : stragglers_of(now.stats)) {
    result["stragglers"].push_back({{"job", one.job},
                                    {"worker", one.worker},
                                    {"connected", one.connected},
                                    {"clock", one.clock},
                                    {"median", one.median}});
  }
  return result.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace heddle::tool
