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

// Chooses the address to listen on. `wanted_name` is an interface or one of the addresses. If it is empty,
// HEDDLE_COMM_INTERFACE is used; if that is not set, 127.0.0.1 if all ranks are on one host, otherwise the
// best address of an interface that is up. Better are, the most important first: addresses that are not
// link-local, real interfaces, the interface of the default route, IPv4. Throws InvalidArgument for a name
// that does not exist or is down, naming those that do exist.
std::string choose_address(const std::string& wanted_name, bool one_host);

// As choose_address() above, but chooses from `all` and does not read the environment.
std::string choose_address(const std::string& wanted_name, bool one_host, const std::vector<Interface>& all);

// Of a numeric address: 127.0.0.0/8, ::1, ::ffff:127.0.0.0/104.
bool is_loopback_address(const std::string& address);

// Range of the ports that ranks may listen on, first and last included. 0 to 0 lets the system choose a port.
struct PortRange {
  int first = 0, last = 0;
  int count() const { return last - first + 1; }
};

// Parses a range of ports such as "20000-20100", or one port such as "20000". Throws InvalidArgument naming
// HEDDLE_COMM_PORTS.
PortRange parse_port_range(const std::string& text);

// The range of HEDDLE_COMM_PORTS, or 0 to 0 if it is not set.
PortRange port_range();

}  // namespace heddle::net_detail
