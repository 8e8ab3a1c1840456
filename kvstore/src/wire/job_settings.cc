#include "wire/job_settings.h"

#include <heddle/error.h>

namespace heddle::kv_detail {
namespace {

constexpr std::string kPlacement = ", placement ", kExplicit = "explicit ";
constexpr std::size_t kDigits = 16;

bool is_placement(const std::string& text) {
  if (text == "greedy" || text == "round_robin") return true;
  return text.starts_with(kExplicit) && text.size() == kExplicit.size() + kDigits &&
         text.find_first_not_of("0123456789abcdef", kExplicit.size()) == std::string::npos;
}

}  // namespace

std::string job_settings_text(const std::string& consistency, const std::string& placement) {
  return placement == "hash" ? consistency : consistency + kPlacement + placement;
}

std::string with_placement(const std::string& terms, const std::string& placement) {
  return job_settings_text(terms.substr(0, terms.find(kPlacement)), placement);
}

JobSettings parse_job_settings(const std::string& text) {
  const std::size_t end = text.find(kPlacement);
  JobSettings terms{.consistency = parse_consistency(text.substr(0, end))};
  if (end == std::string::npos) return terms;
  terms.placement = text.substr(end + kPlacement.size());
  if (!is_placement(terms.placement))
    throw InvalidArgument("'" + terms.placement +
                          "' is no placement; there are greedy, round_robin and explicit");
  return terms;
}

}  // namespace heddle::kv_detail
