#include "connection/socket.h"

#include <array>
#include <cerrno>
#include <memory>
#include <netdb.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <netinet/tcp.h>

#include <heddle/comm_error.h>

namespace heddle::net_detail {
namespace {

// The size of socket buffers: enough for 10 Gbit/s at a round trip of a millisecond. With more, data between processes
// of one host would leave the cache before they are read.
constexpr int kBuffer = 1 << 20;

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses resolve(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int wrong = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (wrong)
    throw LocalFailure("'" + address + "' is no address of a network interface: " + lookup_error(wrong));
  return Addresses(list);
}

void set(const Socket& socket, int level, int name, int value) {
  setsockopt(socket.fd(), level, name, &value, sizeof value);
}

// Throws the error in errno: LocalFailure for a lasting one, CommError for one that may pass (no descriptor,
// memory, port or route).
[[noreturn]] void throw_failure(const std::string& what) {
  const int error = errno;
  const std::string text = what + ": " + last_error();
  for (const int lasting : {EACCES, EPERM, EAFNOSUPPORT, EPROTONOSUPPORT, EINVAL, ENAMETOOLONG})
    if (error == lasting) throw LocalFailure(text);
  throw CommError(text);
}

Socket make_socket(int family) {
  Socket socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) throw_failure("there is no socket to be had");
  // The buffer sizes are set before the connection is made, because the TCP window scale is negotiated then.
  set(socket, SOL_SOCKET, SO_SNDBUF, kBuffer);
  set(socket, SOL_SOCKET, SO_RCVBUF, kBuffer);
  return socket;
}

// SO_REUSEADDR allows ports of sockets in TIME_WAIT. It also lets two sockets bind a port on which neither
// listens yet. Then the second listen() fails.
Socket try_to_listen(const addrinfo& address, int backlog) {
  Socket socket = make_socket(address.ai_family);
  set(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(socket.fd(), address.ai_addr, address.ai_addrlen) != 0) return {};
  if (listen(socket.fd(), backlog) != 0) return {};
  return socket;
}

void tune(const Socket& socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  // Reno instead of the system's choice: BBR paces its packets, which halves the bandwidth inside a host and
  // in a fast network. A system may forbid the change, so the result is ignored.
  constexpr std::string_view kReno = "reno";
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_CONGESTION, kReno.data(), static_cast<socklen_t>(kReno.size()));
}

}  // namespace

void throw_of_keys(const CommError& error) {
  const Socket descriptor(eventfd(0, EFD_CLOEXEC));
  if (!descriptor) throw CommError(error.what());
  throw LocalFailure(error.what());
}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = other.release();
  }
  return *this;
}

int Socket::release() { return std::exchange(fd_, -1); }

void Socket::close() {
  if (fd_ >= 0) ::close(release());
}

EventFd::EventFd() : socket_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (!socket_) throw CommError("there is no eventfd to be had: " + last_error());
}

void EventFd::signal() noexcept {
  const std::uint64_t one = 1;
  // write() fails only if the counter is at its maximum, and so has been signalled already.
  [[maybe_unused]] const auto written = write(fd(), &one, sizeof one);
}

void EventFd::clear() noexcept {
  std::uint64_t rung = 0;
  [[maybe_unused]] const auto got = read(fd(), &rung, sizeof rung);
}

Socket listen_on(const std::string& address, PortRange ports, int backlog) {
  for (int port = ports.first; port <= ports.last; ++port) {
    const Addresses found = resolve(address, static_cast<std::uint16_t>(port));
    if (Socket socket = try_to_listen(*found, backlog)) return socket;
    if (errno != EADDRINUSE && errno != EACCES) break;
  }
  const std::string why = last_error();
  const std::string first = std::to_string(ports.first), last = std::to_string(ports.last);
  const std::string which = ports.first == 0            ? ""
                            : ports.first == ports.last ? ", port " + first
                                                        : "; HEDDLE_COMM_PORTS allows " + first + "-" + last;
  throw CommError("cannot listen on " + address + ": " + why + which);
}

std::uint16_t port_of(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXSERV> port{};
  if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&address), size, nullptr, 0, port.data(), port.size(),
                  NI_NUMERICSERV) != 0) {
    throw CommError("the port of a socket is unknown: " + last_error());
  }
  return static_cast<std::uint16_t>(std::stoi(port.data()));
}

Socket connect_to(const std::string& address, std::uint16_t port) {
  const Addresses found = resolve(address, port);
  Socket socket = make_socket(found->ai_family);
  if (connect(socket.fd(), found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS) {
    throw_failure("cannot connect to " + address + " port " + std::to_string(port));
  }
  return socket;
}

Socket accept_from(const Socket& listener) {
  return Socket(accept4(listener.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

void check_descriptors() {
  if (errno == EMFILE || errno == ENFILE) throw CommError("a connection cannot be accepted: " + last_error());
}

void tune_for_data(const Socket& socket) { tune(socket); }

void tune_for_control(const Socket& socket, unsigned lost_after_ms) {
  tune(socket);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(lost_after_ms));
}

std::string lookup_error(int code) { return code == EAI_SYSTEM ? last_error() : gai_strerror(code); }

std::string last_error() { return std::generic_category().message(errno); }

}  // namespace heddle::net_detail
