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

// Throws InvalidArgument if a place in a path of checkpoints is neither {epoch} nor {step} nor a value of an epoch. Returns the
// first value, "" if there is none.
inline std::string check_places(const char* who, const FitRun& run, const std::string& path) {
  std::string first;
  for (std::size_t open = path.find('{'); open != std::string::npos; open = path.find('{', open + 1)) {
    const std::size_t close = path.find('}', open);
    if (close == std::string::npos) break;
    const std::string name = path.substr(open + 1, close - open - 1);
    if (name == "epoch" || name == "step") continue;
    check_monitor(who, run, name);
    if (first.empty()) first = name;
  }
  return first;
}

}  // namespace heddle::fit_detail
