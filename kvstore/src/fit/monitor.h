// Callbacks that watch one value of an epoch.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/fit_run.h>
#include <heddle/monitor_mode.h>

#include "fit/path_parts.h"

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

// Throws InvalidArgument if a place in a path of checkpoints is neither {epoch} nor {step} nor a value of an epoch. Returns the
// first value, "" if there is none.
inline std::string check_places(const char* who, const FitRun& run, const std::string& path) {
  std::string first;
  for_places(path, [&](std::string_view place) {
    if (is_count(place)) return;
    check_monitor(who, run, std::string(place));
    if (first.empty()) first = place;
  });
  return first;
}

}  // namespace heddle::fit_detail
