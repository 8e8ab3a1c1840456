// TCP sockets as the tcp transport wants them: never blocking, never signalling, closed by whoever owns them.
#pragma once

#include <cstdint>
#include <string>

#include "net/interfaces.h"

namespace heddle::comm_detail {

// Owns a file descriptor.
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

// An eventfd: readable from ring() on until quiet().
class Alarm {
 public:
  Alarm();
  int fd() const { return socket_.fd(); }
  void ring() noexcept;
  void quiet() noexcept;

 private:
  Socket socket_;
};

// Throw CommError with the address, and the range if none of it is free. Addresses are numeric, of IPv4 or IPv6.
Socket listen_on(const std::string& address, PortRange ports, int backlog);
std::uint16_t port_of(const Socket& socket);
// Only starts to: the first step that fails says that it came to nothing.
Socket connect_to(const std::string& address, std::uint16_t port);
// Nothing there: an empty one. Never throws for what strangers do.
Socket accept_from(const Socket& listener);

// Data waits for its reader as long as that computes. A control connection is given up once `lost_after_ms` have passed
// without the other kernel confirming what was sent: its host is gone.
void tune_for_data(const Socket& socket);
void tune_for_control(const Socket& socket, unsigned lost_after_ms);

// The error that errno holds, in words.
std::string last_error();

}  // namespace heddle::comm_detail
