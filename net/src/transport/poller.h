// An epoll instance, which waits for many file descriptors.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "connection/socket.h"

namespace heddle::net_detail {

class FdPoller {
 public:
  FdPoller();  // throws CommError
  // Level-triggered; `events` as of poll(2). The kernel removes a descriptor that is closed.
  void add(int fd, short events, std::uint64_t number);
  void change(int fd, short events, std::uint64_t number);
  void remove(int fd);
  // Waits until a descriptor is ready, and returns the numbers that add() got for the ready descriptors,
  // `most` of them at most; later calls return the others. The reference is valid until the next call.
  const std::vector<std::uint64_t>& wait(std::chrono::nanoseconds timeout, int most = kMost);
  int fd() const { return epoll_.fd(); }  // readable while one of the descriptors is ready

 private:
  static constexpr int kMost = 256;
  void control(int operation, int fd, short events, std::uint64_t number);
  net_detail::Socket epoll_;
  std::vector<std::uint64_t> ready_;
};

}  // namespace heddle::net_detail
