#include "security/key_roles.h"

#include <algorithm>

namespace heddle::net_detail {
namespace {

// Whether `text` is the pattern with some text in place of each *. If `text` has a * itself, only a * of the
// pattern stands for it. So if `text` is a pattern, `pattern` matches all that it matches.
bool matches(std::string_view pattern, std::string_view text) {
  std::size_t at = 0, in_text = 0, star = std::string_view::npos, star_end = 0;
  while (in_text < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      star_end = in_text;
    } else if (at < pattern.size() && pattern[at] == text[in_text]) {
      ++at, ++in_text;
    } else if (star != std::string_view::npos) {  // the last * takes one character more
      at = star + 1;
      in_text = ++star_end;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

}  // namespace

bool KeyRoles::may_join(std::string_view job) const {
  return jobs.empty() || std::any_of(jobs.begin(), jobs.end(),
                                     [&](const std::string& pattern) { return matches(pattern, job); });
}

bool KeyRoles::includes(const KeyRoles& other) const {
  if ((other.worker && !worker) || (other.server && !server) || (other.admin && !admin)) return false;
  if (!other.worker || jobs.empty()) return true;
  return !other.jobs.empty() && std::all_of(other.jobs.begin(), other.jobs.end(),
                                            [this](const std::string& theirs) { return may_join(theirs); });
}

}  // namespace heddle::net_detail
