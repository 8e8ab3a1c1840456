// Addresses "HOST:PORT", and how processes of one host and user find each other behind them.
#pragma once

#include <cstdint>
#include <string>

#include "net/socket.h"

namespace heddle::kv_detail {

struct Address {
  std::string host;  // numeric if it is an address to listen at or to connect to
  std::uint16_t port = 0;
  std::string text() const;  // an IPv6 host in brackets
};

// Throws InvalidArgument for anything but HOST:PORT, and for what can be no host.
Address parse_address(const std::string& text);
// parse_address for an address to connect to: its host must not be empty, nor its port 0.
Address parse_address_of_peer(const std::string& text);
// The host as one of this machine's addresses: comm's choose_address, or any of loopback. Throws InvalidArgument.
Address address_to_listen_at(const std::string& text);
// The host as a number; may ask a name server. Throws CommError if the name is unknown, which may change, and LocalFailure for
// what is no address in any network.
Address address_to_connect_to(const std::string& text);

// The name of the unix socket that stands beside a listening TCP socket, without the leading zero byte: in Linux's
// abstract namespace, which processes share if and only if they share the loopback interface. It proves the user of both
// ends (SO_PEERCRED), which a TCP socket on loopback cannot; nothing is left behind by a process that is killed.
std::string local_name(const std::string& kind, const Address& address);

// A unix socket at that name. Listening throws CommError; an empty Socket: the name is taken.
comm_detail::Socket listen_locally(const std::string& name, int backlog);
// Empty, with errno: nobody listens there (ECONNREFUSED), or too many connect at once (EAGAIN).
comm_detail::Socket connect_locally(const std::string& name);
// Whether the other end of a unix socket belongs to this process's user: for who has connected the process that listens,
// for who has accepted the process that has connected.
bool is_same_user(int fd);

}  // namespace heddle::kv_detail
