#include "connection/interfaces.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <ifaddrs.h>
#include <memory>
#include <netdb.h>
#include <set>
#include <sstream>
#include <sys/socket.h>

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>

#include <heddle/comm_error.h>

#include "connection/environment.h"

namespace heddle::net_detail {
namespace {

constexpr int kMaxPorts = 65535;

std::string text_of(const sockaddr* address) {
  const socklen_t length = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  char text[NI_MAXHOST];
  return ::getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text : "";
}

// Names of the interfaces with a default route.
std::set<std::string> default_routes() {
  std::set<std::string> names;
  std::ifstream file("/proc/net/route");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name, destination;
    if (words >> name >> destination && destination == "00000000") names.insert(name);
  }
  return names;
}

// Whether the interface belongs to containers or virtual machines, since other hosts use the same addresses for
// theirs.
bool is_virtual(const std::string& name) {
  for (const char* start :
       {"docker", "veth", "br-", "virbr", "cni", "flannel", "cali", "lxc", "lxdbr", "podman"}) {
    if (name.starts_with(start)) return true;
  }
  return false;
}

bool is_ipv4(const std::string& address) { return address.find(':') == std::string::npos; }
bool is_link_local(const std::string& address) {
  return address.starts_with("fe80:") || address.starts_with("169.254.");
}

// How unsuitable an address is. The address with the smallest value is chosen.
int penalty(const Interface& one) {
  return (is_link_local(one.address) ? 8 : 0) + (is_virtual(one.name) ? 4 : 0) +
         (one.has_default_route ? 0 : 2) + (is_ipv4(one.address) ? 0 : 1);
}

const Interface* best_of(const std::vector<Interface>& all, auto&& acceptable) {
  const Interface* best = nullptr;
  for (const Interface& one : all) {
    if (acceptable(one) && (!best || penalty(one) < penalty(*best))) best = &one;
  }
  return best;
}

std::string list_of(const std::vector<Interface>& all) {
  std::string text;
  for (const Interface& one : all) {
    text += (text.empty() ? "" : ", ") + one.name + " (" + one.address + (one.is_up ? ")" : ", down)");
  }
  return text.empty() ? "none" : text;
}

}  // namespace

std::vector<Interface> interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, ::freeifaddrs);
  const std::set<std::string> routes = default_routes();
  std::vector<Interface> all;
  for (const ifaddrs* one = first; one; one = one->ifa_next) {
    if (!one->ifa_addr) continue;
    if (const int family = one->ifa_addr->sa_family; family != AF_INET && family != AF_INET6) continue;
    all.push_back({.name = one->ifa_name,
                   .address = text_of(one->ifa_addr),
                   .is_loopback = (one->ifa_flags & IFF_LOOPBACK) != 0,
                   .is_up = (one->ifa_flags & IFF_UP) != 0,
                   .has_default_route = routes.contains(one->ifa_name)});
  }
  return all;
}

std::string choose_address(const std::string& wanted_name, bool one_host) {
  return choose_address(wanted_name.empty() ? variable("HEDDLE_COMM_INTERFACE") : wanted_name, one_host,
                        interfaces());
}

std::string choose_address(const std::string& wanted_name, bool one_host, const std::vector<Interface>& all) {
  if (!wanted_name.empty()) {
    const Interface* found = best_of(all, [&](const Interface& one) {
      return one.is_up && (one.name == wanted_name || one.address == wanted_name);
    });
    if (found) return found->address;
    throw InvalidArgument("HEDDLE_COMM_INTERFACE: no interface that is up is called '" + wanted_name +
                          "' or has this address; there is: " + list_of(all));
  }
  if (one_host) return "127.0.0.1";
  const Interface* found = best_of(
      all, [](const Interface& one) { return one.is_up && !one.is_loopback && !one.address.empty(); });
  if (found) return found->address;
  throw CommError("no network interface but loopback is up: other hosts cannot reach this one; there is: " +
                  list_of(all));
}

bool is_loopback_address(const std::string& address) {
  in_addr v4;
  if (::inet_pton(AF_INET, address.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6;
  if (::inet_pton(AF_INET6, address.c_str(), &v6) != 1) return false;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

PortRange parse_port_range(const std::string& text) {
  const char *at = text.data(), *end = at + text.size();
  PortRange range;
  auto first = std::from_chars(at, end, range.first);
  range.last = range.first;
  bool good = first.ec == std::errc{};
  if (good && first.ptr != end && *first.ptr == '-') {
    first = std::from_chars(first.ptr + 1, end, range.last);
    good = first.ec == std::errc{};
  }
  if (good && first.ptr == end && 1 <= range.first && range.first <= range.last && range.last <= kMaxPorts) {
    return range;
  }
  throw InvalidArgument("HEDDLE_COMM_PORTS: '" + text +
                        "' is no range of ports; wanted is FIRST-LAST, from 1 to 65535");
}

PortRange port_range() {
  const std::string set = variable("HEDDLE_COMM_PORTS");
  return set.empty() ? PortRange{} : parse_port_range(set);
}

}  // namespace heddle::net_detail
