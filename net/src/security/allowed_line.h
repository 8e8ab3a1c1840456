// A line of comm.allowed.
#pragma once

#include <string>
#include <string_view>

#include "security/key_roles.h"

namespace heddle::net_detail {

constexpr std::string_view kCurveField = "curve:", kRolesField = "roles:", kJobsField = "jobs:";

struct AllowedLine {
  std::string fingerprint{};  // fingerprint of the key for TLS; empty: the line has no key
  std::string curve{};        // public key for ZeroMQ; empty: the line has none
  KeyRoles roles{};
};

// parse_allowed_line() and parse_key_roles() throw CommError saying what is wrong and what is wanted.
AllowedLine parse_allowed_line(const std::string& line);
// `roles` is a list such as "worker,server". `jobs` is a list such as "team-a-*,eval"; empty: all jobs.
KeyRoles parse_key_roles(const std::string& roles, const std::string& jobs);

}  // namespace heddle::net_detail
