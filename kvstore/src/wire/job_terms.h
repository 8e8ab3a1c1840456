// What the workers of a job have to agree on from the start, as a hello says it.
#pragma once

#include <string>

#include "wire/consistency.h"

namespace heddle::kv_detail {

// "sync", "ssp:3"; where the placement is not `hash` it follows, as "sync, placement greedy".
struct JobTerms {
  Consistency consistency;
  std::string placement = "hash";  // as PlacementRule::text() writes it

  // The servers of keys depend on those that were initialised before.
  bool is_ordered() const { return placement == "greedy" || placement == "round_robin"; }
};

std::string job_terms_text(const std::string& consistency, const std::string& placement);
JobTerms parse_job_terms(const std::string& text);  // throws InvalidArgument
// `terms`, a text of job_terms_text(), with its placement replaced.
std::string with_placement(const std::string& terms, const std::string& placement);

}  // namespace heddle::kv_detail
