#include "scheduler_metrics.h"

#include <utility>
#include <vector>

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

namespace heddle::tool {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Stats = StoreSchedulerStats;

MetricFamily& add_family(std::vector<MetricFamily>& all, const std::string& name, const std::string& help,
                         MetricType type) {
  all.push_back({"heddle_scheduler_" + name, help, type, {}});
  return all.back();
}

void add_value(MetricFamily& family, double value, std::vector<ClientMetric::Label> labels = {}) {
  ClientMetric metric;
  metric.label = std::move(labels);
  (family.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  family.metric.push_back(std::move(metric));
}

struct Value {
  const char* name;
  const char* help;
  MetricType type;
  double (*value)(const Stats&);
};

constexpr MetricType kGauge = MetricType::Gauge, kCounter = MetricType::Counter;

const Value kValues[] = {
    {"uptime_seconds", "Since the scheduler listens.", kGauge, [](const Stats& all) { return all.uptime; }},
    {"leads", "1, or 0 while another scheduler decides and this one stands by.", kGauge,
     [](const Stats& all) { return all.leads ? 1.0 : 0.0; }},
    {"begun", "1 once all servers have come.", kGauge,
     [](const Stats& all) { return all.begun ? 1.0 : 0.0; }},
    {"views_version", "Grows with each change of which server keeps what.", kGauge,
     [](const Stats& all) { return static_cast<double>(all.version); }},
    {"servers", "How many servers there should be.", kGauge,
     [](const Stats& all) { return static_cast<double>(all.servers); }},
    {"servers_here", "Servers that are connected.", kGauge,
     [](const Stats& all) { return static_cast<double>(all.servers_here); }},
    {"workers_here", "Workers that are connected.", kGauge,
     [](const Stats& all) { return static_cast<double>(all.workers_here); }},
    {"failovers_total", "Backups that took over.", kCounter,
     [](const Stats& all) { return static_cast<double>(all.failovers); }},
    {"handed_back_total", "Parts of the keys that went back to their own server.", kCounter,
     [](const Stats& all) { return static_cast<double>(all.returned); }},
    {"lost_total", "Parts of the keys that were lost, and began anew.", kCounter,
     [](const Stats& all) { return static_cast<double>(all.lost); }},
    {"refused_total", "Processes that were refused.", kCounter,
     [](const Stats& all) { return static_cast<double>(all.refused); }},
    {"unauthorized_total", "Processes that were refused for what their key lacks.", kCounter,
     [](const Stats& all) { return static_cast<double>(all.unauthorized); }},
};

}  // namespace

std::string scheduler_metrics_text(const Stats& stats, const std::string& address) {
  std::vector<MetricFamily> all;
  add_value(add_family(all, "info", "1; the label says where the scheduler is.", kGauge), 1,
            {{"address", address}});
  for (const Value& one : kValues) add_value(add_family(all, one.name, one.help, one.type), one.value(stats));
  MetricFamily copies{
      "heddle_scheduler_shard_copies",
      "Complete copies of a part of the keys on servers that are connected, the primary's included.",
      kGauge,
      {}};
  MetricFamily primaries{"heddle_scheduler_shard_primary",
                         "The number of the server that keeps it; -1: none, or it is gone.",
                         kGauge,
                         {}};
  for (std::size_t shard = 0; shard < stats.shards.size(); ++shard) {
    const ShardAssignment& one = stats.shards[shard];
    const std::vector<ClientMetric::Label> label = {{"shard", std::to_string(shard)}};
    add_value(copies, one.copies, label);
    add_value(primaries, one.primary, label);
  }
  all.push_back(std::move(copies));
  all.push_back(std::move(primaries));
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace heddle::tool
