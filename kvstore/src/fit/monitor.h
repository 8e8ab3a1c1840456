// Callbacks that watch one value of an epoch.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <heddle/callbacks.h>

namespace heddle::fit_detail {

inline bool wants_more(const std::string& name, MonitorMode mode) {
  if (mode != MonitorMode::automatic) return mode == MonitorMode::max;
  for (const char* less : {"loss", "error", "perplexity", "distance"})
    if (name.find(less) != std::string::npos) return false;
  return true;
}

// Whether `value` is better than `best`, if there is one, by more than `delta`. NaN is never better, and everything is
// better than NaN.
inline bool is_better(double value, const std::optional<double>& best, bool more, double delta) {
  if (std::isnan(value)) return false;
  if (!best || std::isnan(*best)) return true;
  return more ? value > *best + delta : value < *best - delta;
}

// Throws InvalidArgument if an epoch has no value of this name.
inline void check_monitor(const char* who, const FitRun& run, const std::string& name) {
  const std::vector<std::string>& names = run.value_names();
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  std::string known;
  for (const std::string& one : names) known += (known.empty() ? "" : ", ") + one;
  throw InvalidArgument(std::string(who) + ": there is no value '" + name + "' to monitor; there are " +
                        known);
}

}  // namespace heddle::fit_detail
