// What the processes of a key may do in key-value stores: `roles:` in its line of comm.allowed.
#pragma once

namespace heddle::comm_detail {

struct KeyRoles {
  bool worker = false;  // push and pull
  bool server = false;  // be a server or the scheduler: keep values, copy them, say who keeps what
  bool admin = false;   // ask how a server is, and let it drain
  bool includes(KeyRoles other) const {
    return (worker || !other.worker) && (server || !other.server) && (admin || !other.admin);
  }
};
constexpr KeyRoles kAllRoles{.worker = true, .server = true, .admin = true};

}  // namespace heddle::comm_detail
