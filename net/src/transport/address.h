// Addresses "HOST:PORT", and unix sockets by which processes of one host and user connect to them.
#pragma once

#include <cstdint>
#include <string>

#include "connection/socket.h"

namespace heddle::net_detail {

struct Address {
  std::string host;  // name or IP address; an IP address if it is to be listened at or connected to
  std::uint16_t port = 0;
  std::string text() const;  // HOST:PORT; an IPv6 host is in brackets
};

// Parses HOST:PORT. Throws InvalidArgument for other texts, and for an invalid host.
Address parse_address(const std::string& text);
// Parses an address to connect to: like parse_address(), but the host must not be empty, nor the port 0.
Address parse_address_of_peer(const std::string& text);
// Parses an address of this machine: a loopback address, or what choose_address (connection/interfaces.h)
// makes of the host. Throws InvalidArgument.
Address address_to_listen_at(const std::string& text);
// Parses an address and resolves the host; may ask a name server. Throws CommError if the name is unknown,
// which may change, and LocalFailure for a number that is no address in any network.
Address address_to_connect_to(const std::string& text);

// Name of the unix socket beside a listening TCP socket, without the leading zero byte: in Linux's abstract
// namespace, which processes share if and only if they share the loopback interface. The socket proves the
// user of both ends (SO_PEERCRED), which TCP on loopback cannot; a killed process leaves no file.
std::string local_name(const std::string& kind, const Address& address);

// Listens at a unix socket of this name. An empty Socket: the name is taken. Throws CommError.
net_detail::Socket listen_locally(const std::string& name, int backlog);
// Connects to a unix socket of this name. Returns an empty Socket, and sets errno, if nobody listens
// (ECONNREFUSED), or too many processes connect at once (EAGAIN).
net_detail::Socket connect_locally(const std::string& name);
// True if the process at the other end of a connected unix socket belongs to this process's user.
bool is_same_user(int fd);

}  // namespace heddle::net_detail
