#include "wire/views.h"

#include <algorithm>
#include <random>

namespace heddle::kv_detail {

std::uint64_t new_incarnation() {
  std::random_device device;
  return (std::uint64_t{device()} << 32 | device()) | 1;
}

const ServerInfo* find_server(const Views& views, std::uint64_t incarnation) {
  const auto found =
      std::find_if(views.servers.begin(), views.servers.end(),
                   [incarnation](const ServerInfo& one) { return one.incarnation == incarnation; });
  return found == views.servers.end() || incarnation == 0 ? nullptr : &*found;
}

void ServerInfo::check() const {
  if (number >= kMostServers) throw MalformedMessage("a server has the number " + std::to_string(number));
}

}  // namespace heddle::kv_detail
