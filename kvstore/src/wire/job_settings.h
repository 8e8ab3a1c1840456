// The settings that all workers of a job have to share from the start, and their text in a Hello.
#pragma once

#include <string>

#include "wire/consistency.h"

namespace heddle::kv_detail {

// Consistency and placement of a job. As text they are "sync" or "ssp:3" with the placement `hash`, and
// "sync, placement greedy" with another placement.
struct JobSettings {
  Consistency consistency;
  std::string placement = "hash";  // text as PlacementRule::text() writes it

  // True if the server of a key depends on the keys that were initialised before it.
  bool is_ordered() const { return placement == "greedy" || placement == "round_robin"; }
};

std::string job_settings_text(const std::string& consistency, const std::string& placement);
JobSettings parse_job_settings(const std::string& text);  // throws InvalidArgument
// Returns `terms`, a text of job_settings_text(), with its placement replaced.
std::string with_placement(const std::string& terms, const std::string& placement);

}  // namespace heddle::kv_detail
