// Chooses the address and ports at which this host listens.
#pragma once

#include <string>
#include <vector>

namespace heddle::net_detail {

// One address of a network interface; an interface has as many of these as it has addresses.
struct Interface {
  std::string name;
  std::string address;  // numeric; IPv6 link-local ones with %name
  bool is_loopback = false;
  bool is_up = false;
  bool has_default_route = false;
};

// All addresses of this host, IPv4 and IPv6, as the system lists them.
std::vector<Interface> interfaces();

// The address to listen on. `wanted_name` is an interface or one of the addresses; empty: HEDDLE_COMM_INTERFACE, then
// 127.0.0.1 if all ranks are on one host, otherwise where the default route leads, real interfaces before virtual ones,
// IPv4 before IPv6. Throws InvalidArgument for a name that does not exist or is down, naming those that do.
std::string choose_address(const std::string& wanted_name, bool one_host);

// As choose_address() above, but chooses from `all` and does not read the environment.
std::string choose_address(const std::string& wanted_name, bool one_host, const std::vector<Interface>& all);

bool is_loopback_address(const std::string& address);  // numeric: 127.0.0.0/8, ::1, ::ffff:127.0.0.0/104

// Ports that ranks may listen on, both included; 0 to 0 lets the system choose.
struct PortRange {
  int first = 0, last = 0;
  int count() const { return last - first + 1; }
};

// "20000-20100" or "20000". Throws InvalidArgument naming HEDDLE_COMM_PORTS.
PortRange parse_port_range(const std::string& text);

// HEDDLE_COMM_PORTS, or 0 to 0 if it is not set.
PortRange port_range();

}  // namespace heddle::net_detail
