// Nonblocking TCP sockets, which never raise signals, and eventfds.
#pragma once

#include <cstdint>
#include <string>

#include <heddle/comm_error.h>

#include "connection/interfaces.h"

namespace heddle::net_detail {

// This host lacks or forbids something: another attempt would fail in the same way.
class LocalFailure : public CommError {
 public:
  using CommError::CommError;
};

// Throws an error of reading this host's key files again: as LocalFailure, unless the process had no
// descriptor left.
[[noreturn]] void throw_of_keys(const CommError& error);

// Owns a file descriptor and closes it.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : fd_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept;

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release();
  void close();

 private:
  int fd_ = -1;
};

// An eventfd, which wakes a thread that polls fd(): readable from signal() until clear().
class EventFd {
 public:
  EventFd();
  int fd() const { return socket_.fd(); }
  void signal() noexcept;
  void clear() noexcept;

 private:
  Socket socket_;
};

// Listens at a numeric address, IPv4 or IPv6, and one of the ports. Throws CommError with the address, and
// with the range if none of its ports is free.
Socket listen_on(const std::string& address, PortRange ports, int backlog);
std::uint16_t port_of(const Socket& socket);
// Starts to connect to a numeric address. If the connection fails, the first send or receive returns an
// error. Throws CommError if connecting cannot start, and LocalFailure if no later attempt can succeed.
Socket connect_to(const std::string& address, std::uint16_t port);
// Accepts a connection. Returns an empty Socket if no connection is waiting, or the waiting one has failed
// already.
Socket accept_from(const Socket& listener);
// Called after accept_from() has returned an empty Socket: throws CommError if there are too many open files.
void check_descriptors();

// tune_for_data() is for data connections, whose data may stay unread for as long as the peer computes. A
// control connection is always read, so tune_for_control() lets it end when the peer's kernel has
// acknowledged nothing for `lost_after_ms`: the host is lost.
void tune_for_data(const Socket& socket);
void tune_for_control(const Socket& socket, unsigned lost_after_ms);

// The message that belongs to errno.
std::string last_error();
std::string lookup_error(int code);  // the message that belongs to an error code of getaddrinfo()

}  // namespace heddle::net_detail
