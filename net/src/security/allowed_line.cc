#include "security/allowed_line.h"

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include <heddle/comm_error.h>

#include "security/curve_key.h"
#include "security/tls_key.h"

namespace heddle::net_detail {
namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream in(line);
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names;
  std::istringstream in(list);
  for (std::string name; std::getline(in, name, ',');) names.push_back(name);
  return names;
}

[[noreturn]] void refuse_roles(const std::string& text) {
  throw CommError("'" + text + "'; want some of worker, server and admin, as in roles:worker,server");
}

[[noreturn]] void refuse_jobs(const std::string& text) {
  throw CommError("'" + text +
                  "'; want names of jobs in printable ASCII, in which * stands for any text, as in " +
                  "jobs:team-a-*,eval");
}

// `list` is the value of the field. `text` is the whole field, for the error.
KeyRoles roles_in_field(const std::string& list, const std::string& text) {
  KeyRoles roles;
  for (const std::string& name : names_in(list)) {
    if (name != "worker" && name != "server" && name != "admin") refuse_roles(text);
    (name == "worker" ? roles.worker : name == "server" ? roles.server : roles.admin) = true;
  }
  if (!roles.worker && !roles.server && !roles.admin) refuse_roles(text);
  return roles;
}

std::vector<std::string> jobs_in_field(const std::string& list, const std::string& text) {
  const auto is_bad = [](const std::string& name) {
    return name.empty() ||
           !std::all_of(name.begin(), name.end(), [](char one) { return one > ' ' && one <= '~'; });
  };
  std::vector<std::string> jobs = names_in(list);
  if (jobs.empty() || list.ends_with(',') || std::any_of(jobs.begin(), jobs.end(), is_bad)) refuse_jobs(text);
  return jobs;
}

// Refuses `jobs:` in a comment: its author wants to limit the key, and a comment limits nothing.
void check_comment(const std::vector<std::string>& words, std::size_t begin) {
  for (std::size_t i = begin; i < words.size(); ++i) {
    std::string word = words[i];
    for (char& letter : word)
      if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    for (const char* field : {"job:", "job=", "jobs:", "jobs="}) {
      if (!word.starts_with(field)) continue;
      throw CommError("'" + words[i] +
                      "' stands in the comment and would limit nothing; jobs: comes once, in small letters, "
                      "before the comment");
    }
  }
}

// Without `roles:` a line gives the role worker, which most keys need.
KeyRoles joined(const std::optional<KeyRoles>& roles, std::vector<std::string> jobs) {
  KeyRoles all = roles.value_or(KeyRoles{.worker = true});
  if (!jobs.empty() && !all.worker)
    throw CommError("jobs: says which jobs a worker may join, and the key lacks the role worker");
  all.jobs = std::move(jobs);
  return all;
}

}  // namespace

AllowedLine parse_allowed_line(const std::string& line) {
  const std::vector<std::string> words = words_of(line);
  if (words.empty() || words[0].starts_with('#')) return {};
  AllowedLine result{.fingerprint = words[0]};
  std::size_t at = 1;
  const bool has_curve = words.size() > at && words[at].starts_with(kCurveField);
  if (has_curve) result.curve = words[at++].substr(kCurveField.size());
  if (!is_fingerprint(result.fingerprint) || (has_curve && !is_curve_key(result.curve)))
    throw CommError(
        "no key; a line is sha256: and 64 hexadecimal digits, for ZeroMQ curve: and 40 characters of Z85, "
        "then a "
        "comment");
  std::optional<KeyRoles> roles;
  std::vector<std::string> jobs;
  for (; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (word.starts_with(kRolesField) && !roles) {
      roles = roles_in_field(word.substr(kRolesField.size()), word);
    } else if (word.starts_with(kJobsField) && jobs.empty()) {
      jobs = jobs_in_field(word.substr(kJobsField.size()), word);
    } else {
      break;
    }
  }
  check_comment(words, at);
  result.roles = joined(roles, std::move(jobs));
  return result;
}

KeyRoles parse_key_roles(const std::string& roles, const std::string& jobs) {
  return joined(
      roles_in_field(roles, std::string(kRolesField) + roles),
      jobs.empty() ? std::vector<std::string>{} : jobs_in_field(jobs, std::string(kJobsField) + jobs));
}

}  // namespace heddle::net_detail
