#include "transport/address.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

#include <heddle/comm_error.h>

#include "connection/interfaces.h"

namespace heddle::net_detail {
namespace {

using net_detail::Socket;

struct LocalAddress {
  sockaddr_un unix_address{};
  socklen_t bytes = 0;
  explicit LocalAddress(const std::string& name) {
    unix_address.sun_family = AF_UNIX;
    const std::size_t length = std::min(name.size(), sizeof unix_address.sun_path - 1);
    std::memcpy(unix_address.sun_path + 1, name.data(), length);
    bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&unix_address); }
};

Socket local_socket() {
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) throw CommError("there is no socket to be had: " + net_detail::last_error());
  return socket;
}

constexpr std::size_t kMostOfName = 253, kMostOfLabel = 63;  // lengths in bytes (RFC 1035)

void check_host(const std::string& host, const std::string& text) {
  const auto refuse = [&](const std::string& why) {
    throw InvalidArgument("address: got '" + text.substr(0, kMostOfName) + "', " + why);
  };
  if (host.size() > kMostOfName)
    refuse("a host of " + std::to_string(host.size()) + " bytes; it may have 253");
  std::size_t label = 0;
  for (const char one : host) {
    if (one == '/' || one == '@' || static_cast<unsigned char>(one) <= ' ' || one == 0x7F)
      refuse("whose host has '/', '@' or a blank");
    label = one == '.' ? 0 : label + 1;
    if (label > kMostOfLabel) refuse("a host with a part of more than 63 bytes between its dots");
  }
}

// True if the host looks like an IP address, valid or not: a name server, which may not answer, is not asked.
bool is_number(const std::string& host) {
  return host.find(':') != std::string::npos ||
         (host.find('.') != std::string::npos && host.find_first_not_of("0123456789.") == std::string::npos);
}

}  // namespace

std::string Address::text() const {
  const bool ipv6 = host.find(':') != std::string::npos;
  return (ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Address parse_address(const std::string& text) {
  const auto colon = text.rfind(':');
  Address address;
  if (colon != std::string::npos) {
    address.host = text.substr(0, colon);
    if (address.host.starts_with('[') && address.host.ends_with(']') && address.host.size() > 2)
      address.host = address.host.substr(1, address.host.size() - 2);
    const char *first = text.data() + colon + 1, *last = text.data() + text.size();
    const auto [end, error] = std::from_chars(first, last, address.port);
    check_host(address.host, text);
    if (error == std::errc{} && end == last && first != last) return address;
  }
  throw InvalidArgument("address: got '" + text + "', want HOST:PORT");
}

Address parse_address_of_peer(const std::string& text) {
  Address address = parse_address(text);
  if (address.host.empty() || address.port == 0)
    throw InvalidArgument("address: got '" + text + "', want HOST:PORT with a host and a port other than 0");
  return address;
}

Address address_to_listen_at(const std::string& text) {
  Address address = parse_address(text);
  if (address.host == "localhost") address.host = "127.0.0.1";
  if (!net_detail::is_loopback_address(address.host))
    address.host = net_detail::choose_address(address.host, false);
  return address;
}

Address address_to_connect_to(const std::string& text) {
  Address address = parse_address_of_peer(text);
  addrinfo hints{}, *first = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (is_number(address.host)) hints.ai_flags = AI_NUMERICHOST;
  const int wrong = getaddrinfo(address.host.c_str(), nullptr, &hints, &first);
  if (wrong) {
    const std::string why = "'" + address.host + "' is no host: " + net_detail::lookup_error(wrong);
    if (is_number(address.host)) throw net_detail::LocalFailure(why);
    throw CommError(why);
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(first, freeaddrinfo);
  char number[NI_MAXHOST];
  if (getnameinfo(first->ai_addr, first->ai_addrlen, number, sizeof number, nullptr, 0, NI_NUMERICHOST) != 0)
    throw CommError("'" + address.host + "' has no address");
  address.host = number;
  return address;
}

std::string local_name(const std::string& kind, const Address& address) {
  return "heddle-kv-" + kind + "-" + address.text();
}

Socket listen_locally(const std::string& name, int backlog) {
  Socket socket = local_socket();
  const LocalAddress address(name);
  if (bind(socket.fd(), address.get(), address.bytes) != 0) {
    if (errno == EADDRINUSE) return {};
    throw CommError("cannot listen at @" + name + ": " + net_detail::last_error());
  }
  if (listen(socket.fd(), backlog) != 0)
    throw CommError("cannot listen at @" + name + ": " + net_detail::last_error());
  return socket;
}

Socket connect_locally(const std::string& name) {
  Socket socket = local_socket();
  const LocalAddress address(name);
  if (connect(socket.fd(), address.get(), address.bytes) == 0) return socket;
  const int error = errno;
  socket.close();
  errno = error;
  return {};
}

bool is_same_user(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

}  // namespace heddle::net_detail
