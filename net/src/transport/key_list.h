// The roles of the keys in comm.allowed.
#pragma once

#include <map>
#include <string>

#include "security/key_roles.h"

namespace heddle::net_detail {

using KeyList = std::map<std::string, net_detail::KeyRoles>;  // by the key that Receiver::connected() gets

inline net_detail::KeyRoles roles_in(const KeyList& list, const std::string& key) {
  if (key.empty()) return net_detail::kAllRoles;  // a process of the same user, which needs no key
  const auto found = list.find(key);
  return found == list.end() ? net_detail::KeyRoles{} : found->second;
}

inline std::string lost_role(const std::string& key) {
  return "its key " + key + " has lost a role or a job in comm.allowed";
}
inline std::string no_server(const std::string& key) {
  return "the key " + key + " is no server's: its line in comm.allowed lacks the role server";
}

}  // namespace heddle::net_detail
