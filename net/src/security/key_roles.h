// What the processes of a key may do in key-value stores: `roles:` in its line of comm.allowed.
#pragma once

namespace heddle::net_detail {

struct KeyRoles {
  bool worker = false;  // may push and pull
  bool server = false;  // may be a server or the scheduler: store and copy values, assign shards
  bool admin = false;   // may ask for a server's status, and drain it
  bool includes(KeyRoles other) const {
    return (worker || !other.worker) && (server || !other.server) && (admin || !other.admin);
  }
};
constexpr KeyRoles kAllRoles{.worker = true, .server = true, .admin = true};

}  // namespace heddle::net_detail
