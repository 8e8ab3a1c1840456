#include "metrics.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

namespace heddle::tool {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

ClientMetric metric(MetricType type, double value, Labels labels = {}) {
  ClientMetric result;
  result.label = std::move(labels);
  (type == MetricType::Counter ? result.counter.value : result.gauge.value) = value;
  return result;
}

MetricFamily family(const std::string& name, const std::string& help, MetricType type) {
  return {"heddle_server_" + name, help, type, {}};
}

struct ServerMetric {
  const char* name;
  const char* help;
  MetricType type;
  double (*value)(const ServerSnapshot&);
};

template <typename T> double number(T value) { return static_cast<double>(value); }

constexpr MetricType kGauge = MetricType::Gauge, kCounter = MetricType::Counter;
using Snapshot = const ServerSnapshot&;

const ServerMetric kServerMetrics[] = {
    {"uptime_seconds", "Since the server listens.", kGauge, [](Snapshot all) { return all.stats.uptime; }},
    {"draining", "1 if no new worker is accepted.", kGauge,
     [](Snapshot all) { return all.stats.draining ? 1.0 : 0.0; }},
    {"jobs", "Jobs with values or workers here.", kGauge,
     [](Snapshot all) { return number(all.stats.jobs); }},
    {"keys", "Keys with a value, or a part of one, here.", kGauge,
     [](Snapshot all) { return number(all.stats.keys); }},
    {"value_bytes", "Memory of values.", kGauge, [](Snapshot all) { return number(all.stats.value_bytes); }},
    {"state_bytes", "Memory of optimizer state.", kGauge,
     [](Snapshot all) { return number(all.stats.state_bytes); }},
    {"waiting_bytes", "Memory of pushes that wait for their round.", kGauge,
     [](Snapshot all) { return number(all.stats.waiting_bytes); }},
    {"memory_used_bytes", "What counts for the limit, also copies for other servers.", kGauge,
     [](Snapshot all) { return number(all.stats.memory_used); }},
    {"memory_limit_bytes", "Of values, state, pushes that wait and copies; 0: none.", kGauge,
     [](Snapshot all) { return number(all.memory_limit); }},
    {"pushes_total", "Pushes that were accepted.", kCounter,
     [](Snapshot all) { return number(all.stats.pushes); }},
    {"pulls_total", "Pulls that were answered.", kCounter,
     [](Snapshot all) { return number(all.stats.pulls); }},
    {"duplicates_total", "Messages that came again and changed nothing.", kCounter,
     [](Snapshot all) { return number(all.stats.duplicates); }},
    {"refused_total", "Connections and requests that were refused.", kCounter,
     [](Snapshot all) { return number(all.stats.refused); }},
    {"unauthorized_total", "Processes that were refused for what their key lacks.", kCounter,
     [](Snapshot all) { return number(all.stats.unauthorized); }},
    {"rounds_total", "Rounds of pushes that became an update.", kCounter,
     [](Snapshot all) { return number(all.stats.rounds); }},
    {"worst_staleness_clocks", "The most clocks that a pull was ahead of the slowest worker.", kGauge,
     [](Snapshot all) { return number(all.stats.worst_staleness); }},
    {"snapshots_total", "Snapshots that were written.", kCounter,
     [](Snapshot all) { return number(all.stats.snapshots.written); }},
    {"snapshots_failed_total", "Snapshots that could not be written.", kCounter,
     [](Snapshot all) { return number(all.stats.snapshots.failed); }},
    {"snapshot_age_seconds",
     "Since all of the state was on the disk, or since the start; 0: no folder for it.", kGauge,
     [](Snapshot all) { return all.stats.snapshots.age; }},
    {"snapshot_bytes", "Size of the last snapshot.", kGauge,
     [](Snapshot all) { return number(all.stats.snapshots.bytes); }},
    {"snapshot_duration_seconds", "Time that it took to write the last snapshot.", kGauge,
     [](Snapshot all) { return all.stats.snapshots.seconds; }},
    {"workers_hidden", "Workers without series of their own.", kGauge,
     [](Snapshot all) { return number(all.workers_hidden); }},
};

struct WorkerMetric {
  const char* name;
  const char* help;
  MetricType type;
  double (*value)(const WorkerStats&);
};

using Worker = const WorkerStats&;

const WorkerMetric kWorkerMetrics[] = {
    {"worker_connected", "1 if the worker is connected.", kGauge,
     [](Worker one) { return one.connected ? 1.0 : 0.0; }},
    {"worker_silent_seconds", "Since the worker's last message.", kGauge,
     [](Worker one) { return one.silent; }},
    {"worker_clock", "The worker's most acknowledged pushes of one key.", kGauge,
     [](Worker one) { return number(one.clock); }},
    {"worker_pulls_waiting", "Pulls of the worker that wait for other workers.", kGauge,
     [](Worker one) { return number(one.pulls_waiting); }},
    {"worker_pushes_total", "Pushes of the worker.", kCounter, [](Worker one) { return number(one.pushes); }},
    {"worker_pulls_total", "Pulls of the worker.", kCounter, [](Worker one) { return number(one.pulls); }},
    {"worker_received_bytes_total", "Bytes that came from the worker.", kCounter,
     [](Worker one) { return number(one.bytes_received); }},
    {"worker_sent_bytes_total", "Bytes that went to the worker.", kCounter,
     [](Worker one) { return number(one.bytes_sent); }},
};

struct ShardMetric {
  const char* name;
  const char* help;
  double (*value)(const ShardStats&);
};

using Part = const ShardStats&;

const ShardMetric kShardMetrics[] = {
    {"shard_epoch", "The scheduler's decision about the part that the server knows.",
     [](Part one) { return number(one.epoch); }},
    {"shard_primary", "1 if workers of the part are answered here.",
     [](Part one) { return one.primary ? 1.0 : 0.0; }},
    {"shard_backup", "1 if a copy of the part is here, or comes.",
     [](Part one) { return one.backup ? 1.0 : 0.0; }},
    {"shard_synced", "Of a primary: 1 if its backup has all.",
     [](Part one) { return one.synced ? 1.0 : 0.0; }},
    {"shard_unconfirmed_bytes", "Of a primary: pushes that its backup has not confirmed.",
     [](Part one) { return number(one.unconfirmed_bytes); }},
};

struct RequestMetric {
  const char* name;
  const char* help;
  LatencyHistogram RequestStats::*times;
};

const RequestMetric kRequestMetrics[] = {
    {"request_duration_seconds", "From a request's arrival until its reply is handed to the connection.",
     &RequestStats::total},
    {"request_server_seconds",
     "The part of it in which the server worked, or the request waited for the server or its backup.",
     &RequestStats::server},
    {"request_wait_seconds", "The part of it in which the request waited for other workers.",
     &RequestStats::workers},
};

ClientMetric histogram(const LatencyHistogram& times, Labels labels) {
  ClientMetric result;
  result.label = std::move(labels);
  result.histogram.sample_count = times.count();
  result.histogram.sample_sum = times.seconds;
  std::uint64_t count = 0;
  for (std::size_t bucket = 0; bucket < times.kBounds.size(); ++bucket)
    result.histogram.bucket.push_back({count += times.counts[bucket], times.kBounds[bucket]});
  return result;
}

MetricFamily info(Snapshot all) {
  MetricFamily result = family("info", "1; the labels say what the server is.", kGauge);
  result.metric.push_back(metric(kGauge, 1,
                                 {{"address", all.address},
                                  {"number", std::to_string(all.number)},
                                  {"servers", std::to_string(all.servers)},
                                  {"transport", all.transport}}));
  return result;
}

// Counts the connected and the disconnected workers of each job.
MetricFamily workers_by_job(Snapshot all) {
  std::map<std::string, std::array<int, 2>> count;
  for (Worker one : all.stats.workers) ++count[one.job][one.connected ? 1 : 0];
  MetricFamily result =
      family("workers", "Workers that the server knows, by whether they are connected.", kGauge);
  std::size_t left = kMostWorkers;
  for (const auto& [job, of] : count) {
    if (left-- == 0) break;
    result.metric.push_back(metric(kGauge, of[1], {{"job_name", job}, {"state", "connected"}}));
    result.metric.push_back(metric(kGauge, of[0], {{"job_name", job}, {"state", "gone"}}));
  }
  return result;
}

void hide_workers(ServerSnapshot& all) {
  std::vector<WorkerStats>& workers = all.stats.workers;
  std::sort(workers.begin(), workers.end(), [](Worker a, Worker b) {
    const bool here = a.connected, there = b.connected;
    return std::tie(there, a.job, a.rank) < std::tie(here, b.job, b.rank);
  });
  all.workers_hidden = workers.size() > kMostWorkers ? workers.size() - kMostWorkers : 0;
  workers.resize(std::min(workers.size(), kMostWorkers));
}

}  // namespace

std::string metrics_text(ServerSnapshot snapshot) {
  std::vector<MetricFamily> families = {info(snapshot), workers_by_job(snapshot)};
  hide_workers(snapshot);
  for (const ServerMetric& one : kServerMetrics) {
    families.push_back(family(one.name, one.help, one.type));
    families.back().metric.push_back(metric(one.type, one.value(snapshot)));
  }
  for (const WorkerMetric& one : kWorkerMetrics) {
    families.push_back(family(one.name, one.help, one.type));
    for (Worker worker : snapshot.stats.workers) {
      Labels labels = {{"job_name", worker.job}, {"worker", std::to_string(worker.rank)}};
      families.back().metric.push_back(metric(one.type, one.value(worker), std::move(labels)));
    }
  }
  for (const RequestMetric& one : kRequestMetrics) {
    families.push_back(family(one.name, one.help, MetricType::Histogram));
    for (const RequestStats& request : snapshot.stats.requests)
      families.back().metric.push_back(histogram(request.*one.times, {{"request", request.kind}}));
  }
  for (const ShardMetric& one : kShardMetrics) {
    families.push_back(family(one.name, one.help, kGauge));
    for (Part part : snapshot.stats.shards)
      families.back().metric.push_back(
          metric(kGauge, one.value(part), {{"shard", std::to_string(part.shard)}}));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace heddle::tool
