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
  // Patterns of the jobs that it may join as a worker: names, in which * stands for any text. Empty: all jobs.
  std::vector<std::string> jobs{};

  bool may_join(std::string_view job) const;  // without regard to `worker`
  // True if whoever has these roles may do all that `other` allows. With patterns that only together include
  // one of the other's it may be false even so.
  bool includes(const KeyRoles& other) const;
};
inline const KeyRoles kAllRoles{.worker = true, .server = true, .admin = true};

}  // namespace heddle::net_detail
