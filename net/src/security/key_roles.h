// What the processes of a key may do in key-value stores: `roles:` and `jobs:` in its line of comm.allowed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heddle::net_detail {

struct KeyRoles {
  bool worker = false;  // may push and pull
  bool server = false;  // may be a server or the scheduler: store and copy values, assign shards
  bool admin = false;   // may ask for a server's status, and drain it
  // Patterns of the names of the jobs that the key's processes may join as workers; * stands for any text.
  // Empty: all jobs.
  std::vector<std::string> jobs{};

  bool may_join(std::string_view job) const;  // whether `jobs` allows this job, whatever `worker` is
  // Returns true only if these roles allow all that `other` allows. False also if a pattern of `other.jobs`
  // is allowed by several patterns of `jobs` together, but by none of them alone.
  bool includes(const KeyRoles& other) const;
};
inline constexpr KeyRoles kAllRoles{.worker = true, .server = true, .admin = true};

}  // namespace heddle::net_detail
