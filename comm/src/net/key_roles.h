// What the processes of a key may do in key-value stores: `roles:` in its line of comm.allowed.
#pragma once

namespace heddle::comm_detail {

struct KeyRoles {
  bool worker = false;  // push and pull
  bool server = false;  // be a server or the scheduler: keep values, copy them, say who keeps what
  bool includes(KeyRoles other) const { return (worker || !other.worker) && (server || !other.server); }
};
constexpr KeyRoles kAllRoles{.worker = true, .server = true};

}  // namespace heddle::comm_detail
