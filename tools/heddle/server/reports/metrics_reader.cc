// Parses the metrics that metrics.cc writes.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "server/reports/metrics.h"

namespace heddle::tool {
namespace {

constexpr std::string_view kPrefix = "heddle_server_";
using Labels = std::map<std::string, std::string, std::less<>>;

struct Sample {
  std::string_view name;
  Labels labels;
  double value = 0;
};

[[noreturn]] void bad(const std::string& what) {
  throw std::runtime_error("no metrics of Prometheus: " + what);
}

// Removes from `text` the part before the first of the characters `ends`, and returns it. One of these
// characters must be in the text.
std::string_view take_until(std::string_view& text, const char* ends) {
  const std::size_t at = text.find_first_of(ends);
  if (at == std::string_view::npos) bad("a line that ends too early");
  const std::string_view result = text.substr(0, at);
  text.remove_prefix(at);
  return result;
}

void take(std::string_view& text, char wanted) {
  if (text.empty() || text.front() != wanted) bad(std::string("want ") + wanted);
  text.remove_prefix(1);
}

void skip_blanks(std::string_view& text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
}

std::string label_value(std::string_view& text) {
  std::string result;
  take(text, '"');
  while (!text.empty() && text.front() != '"') {
    const bool escape = text.front() == '\\';
    if (escape) text.remove_prefix(1);
    if (text.empty()) break;
    result += escape && text.front() == 'n' ? '\n' : text.front();
    text.remove_prefix(1);
  }
  take(text, '"');
  return result;
}

Labels labels_of(std::string_view& text) {
  Labels result;
  take(text, '{');
  skip_blanks(text);
  while (!text.empty() && text.front() != '}') {
    const std::string name(take_until(text, "=}"));
    take(text, '=');
    result[name] = label_value(text);
    if (!text.empty() && text.front() == ',') text.remove_prefix(1);
    skip_blanks(text);
  }
  take(text, '}');
  return result;
}

double value_of(std::string_view& text) {
  skip_blanks(text);
  if (text.starts_with('+')) text.remove_prefix(1);  // from_chars does not accept the '+' of "+Inf"
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) bad("a line without a number");
  return value;
}

Sample sample_of(std::string_view line) {
  Sample result;
  result.name = take_until(line, "{ \t");
  if (line.front() == '{') result.labels = labels_of(line);
  result.value = value_of(line);
  return result;
}

std::uint64_t count_of(double value) {
  if (!(value >= 0 && value < 0x1p63)) bad("a count that cannot be");
  return static_cast<std::uint64_t>(value);
}

std::int64_t clock_of(double value) {
  if (!(std::fabs(value) < 0x1p62)) bad("a clock that cannot be");
  return static_cast<std::int64_t>(value);
}

double seconds_of(double value) {
  if (!(value >= 0 && value < 1e12)) bad("a time that cannot be");
  return value;
}

int integer_of(const Labels& labels, std::string_view name) {
  const auto found = labels.find(name);
  int value = 0;
  if (found != labels.end()) {
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size()) return value;
  }
  bad("the label " + std::string(name) + " is no number");
}

std::string text_of(const Labels& labels, std::string_view name) {
  const auto found = labels.find(name);
  return found == labels.end() ? "" : found->second;
}

using SetServer = void (*)(ServerSnapshot&, double);
using All = ServerSnapshot&;

const std::map<std::string_view, SetServer> kServer = {
    {"uptime_seconds", [](All all, double value) { all.stats.uptime = seconds_of(value); }},
    {"draining", [](All all, double value) { all.stats.draining = value != 0; }},
    {"jobs", [](All all, double value) { all.stats.jobs = count_of(value); }},
    {"keys", [](All all, double value) { all.stats.keys = count_of(value); }},
    {"value_bytes", [](All all, double value) { all.stats.value_bytes = count_of(value); }},
    {"state_bytes", [](All all, double value) { all.stats.state_bytes = count_of(value); }},
    {"waiting_bytes", [](All all, double value) { all.stats.waiting_bytes = count_of(value); }},
    {"memory_used_bytes", [](All all, double value) { all.stats.memory_used = count_of(value); }},
    {"memory_limit_bytes", [](All all, double value) { all.memory_limit = count_of(value); }},
    {"pushes_total", [](All all, double value) { all.stats.pushes = count_of(value); }},
    {"pulls_total", [](All all, double value) { all.stats.pulls = count_of(value); }},
    {"duplicates_total", [](All all, double value) { all.stats.duplicates = count_of(value); }},
    {"refused_total", [](All all, double value) { all.stats.refused = count_of(value); }},
    {"unauthorized_total", [](All all, double value) { all.stats.unauthorized = count_of(value); }},
    {"rounds_total", [](All all, double value) { all.stats.rounds = count_of(value); }},
    {"worst_staleness_clocks", [](All all, double value) { all.stats.worst_staleness = clock_of(value); }},
    {"snapshots_total", [](All all, double value) { all.stats.snapshots.written = count_of(value); }},
    {"snapshots_failed_total", [](All all, double value) { all.stats.snapshots.failed = count_of(value); }},
    {"snapshot_age_seconds", [](All all, double value) { all.stats.snapshots.age = seconds_of(value); }},
    {"snapshot_bytes", [](All all, double value) { all.stats.snapshots.bytes = count_of(value); }},
    {"snapshot_duration_seconds",
     [](All all, double value) { all.stats.snapshots.seconds = seconds_of(value); }},
    {"workers_hidden", [](All all, double value) { all.workers_hidden = count_of(value); }},
};

using SetWorker = void (*)(WorkerStats&, double);
using One = WorkerStats&;

const std::map<std::string_view, SetWorker> kWorker = {
    {"worker_connected", [](One one, double value) { one.connected = value != 0; }},
    {"worker_silent_seconds", [](One one, double value) { one.silent = seconds_of(value); }},
    {"worker_clock", [](One one, double value) { one.clock = clock_of(value); }},
    {"worker_pulls_waiting", [](One one, double value) { one.pulls_waiting = count_of(value); }},
    {"worker_pushes_total", [](One one, double value) { one.pushes = count_of(value); }},
    {"worker_pulls_total", [](One one, double value) { one.pulls = count_of(value); }},
    {"worker_received_bytes_total", [](One one, double value) { one.bytes_received = count_of(value); }},
    {"worker_sent_bytes_total", [](One one, double value) { one.bytes_sent = count_of(value); }},
};

using SetShard = void (*)(ShardStats&, double);
using Part = ShardStats&;

const std::map<std::string_view, SetShard> kShard = {
    {"shard_epoch", [](Part part, double value) { part.epoch = clock_of(value); }},
    {"shard_primary", [](Part part, double value) { part.primary = value != 0; }},
    {"shard_backup", [](Part part, double value) { part.backup = value != 0; }},
    {"shard_synced", [](Part part, double value) { part.synced = value != 0; }},
    {"shard_unconfirmed_bytes", [](Part part, double value) { part.unconfirmed_bytes = count_of(value); }},
};

const std::map<std::string_view, LatencyHistogram RequestStats::*> kRequests = {
    {"request_duration_seconds", &RequestStats::total},
    {"request_server_seconds", &RequestStats::server},
    {"request_wait_seconds", &RequestStats::workers},
};

using Requests = std::map<std::string, RequestStats>;

// Stores a sample in the histogram of request times that it belongs to; ignores other samples. The counts
// stay cumulative, as Prometheus has them.
void take_request(Requests& requests, const Sample& sample) {
  constexpr std::string_view kSum = "_sum", kBucket = "_bucket";
  const bool is_sum = sample.name.ends_with(kSum), is_bucket = sample.name.ends_with(kBucket);
  if (!is_sum && !is_bucket) return;
  const auto found =
      kRequests.find(sample.name.substr(0, sample.name.size() - (is_sum ? kSum : kBucket).size()));
  if (found == kRequests.end()) return;
  LatencyHistogram& times = requests[text_of(sample.labels, "request")].*found->second;
  if (is_sum) return void(times.seconds = seconds_of(sample.value));
  const std::string le = text_of(sample.labels, "le");
  std::string_view bound_text = le;
  const double bound = value_of(bound_text);
  const auto bucket = std::find(times.kBounds.begin(), times.kBounds.end(), bound);
  // Ignores a bound that only another version of the server has.
  if (bucket == times.kBounds.end() && !std::isinf(bound)) return;
  times.counts[static_cast<std::size_t>(bucket - times.kBounds.begin())] = count_of(sample.value);
}

// Turns cumulative counts (requests that took at most a bound) into counts per bucket (requests that took a
// time between two bounds).
void separate_buckets(LatencyHistogram& times) {
  for (std::size_t bucket = 1; bucket < times.counts.size(); ++bucket) {
    const std::uint64_t before = times.counts[bucket - 1];
    if (times.counts[bucket] == 0)
      times.counts[bucket] = before;  // the server is of another version, which lacks the bucket
    if (times.counts[bucket] < before) bad("a histogram that falls");
  }
  for (std::size_t bucket = times.counts.size(); --bucket > 0;)
    times.counts[bucket] -= times.counts[bucket - 1];
}

void set_info(ServerSnapshot& all, const Labels& labels) {
  all.address = text_of(labels, "address");
  all.transport = text_of(labels, "transport");
  all.number = integer_of(labels, "number");
  all.servers = integer_of(labels, "servers");
}

}  // namespace

ServerSnapshot snapshot_from(std::string_view text) {
  ServerSnapshot result;
  std::map<std::pair<std::string, int>, WorkerStats> workers;
  std::map<int, ShardStats> shards;
  Requests requests;
  bool known = false;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    Sample sample = sample_of(line);
    if (!sample.name.starts_with(kPrefix)) continue;
    sample.name.remove_prefix(kPrefix.size());
    if (sample.name == "info") known = true, set_info(result, sample.labels);
    if (const auto set = kServer.find(sample.name); set != kServer.end()) set->second(result, sample.value);
    if (const auto set = kWorker.find(sample.name); set != kWorker.end()) {
      const std::pair who(text_of(sample.labels, "job_name"), integer_of(sample.labels, "worker"));
      set->second(workers[who], sample.value);
    }
    if (const auto set = kShard.find(sample.name); set != kShard.end())
      set->second(shards[integer_of(sample.labels, "shard")], sample.value);
    take_request(requests, sample);
  }
  if (!known)
    throw std::runtime_error("these are not the metrics of a server: heddle_server_info is missing");
  for (auto& [who, worker] : workers) {
    worker.job = who.first, worker.rank = who.second;
    result.stats.workers.push_back(std::move(worker));
  }
  for (auto& [kind, request] : requests) {
    request.kind = kind;
    for (const auto& [name, times] : kRequests) separate_buckets(request.*times);
    result.stats.requests.push_back(std::move(request));
  }
  for (auto& [number, shard] : shards) {
    shard.shard = number;
    result.stats.shards.push_back(shard);
  }
  return result;
}

}  // namespace heddle::tool
