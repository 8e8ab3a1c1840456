// The metrics of a scheduler, as Prometheus reads them. docs/metrics.md lists them.
#pragma once

#include <string>

#include <heddle/store_scheduler.h>

namespace heddle::tool {

// Formats the metrics in Prometheus' text format 0.0.4.
std::string scheduler_metrics_text(const StoreSchedulerStats& stats, const std::string& address);

}  // namespace heddle::tool
