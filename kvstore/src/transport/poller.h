// epoll, which waits for many file descriptors.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "net/socket.h"

namespace heddle::kv_detail {

class FdPoller {
 public:
  FdPoller();  // throws CommError
  // Level-triggered; `events` as of poll(2). A descriptor that is closed is forgotten by itself.
  void add(int fd, short events, std::uint64_t number);
  void change(int fd, short events, std::uint64_t number);
  void remove(int fd);
  // The numbers of the descriptors that are ready, waiting for one of them; valid until the next call. Those beyond `most` have
  // their turn in the next calls.
  const std::vector<std::uint64_t>& wait(std::chrono::nanoseconds timeout, int most = kMost);
  int fd() const { return epoll_.fd(); }  // ready to be read, while one of the descriptors is ready

 private:
  static constexpr int kMost = 256;
  void control(int operation, int fd, short events, std::uint64_t number);
  comm_detail::Socket epoll_;
  std::vector<std::uint64_t> ready_;
};

}  // namespace heddle::kv_detail
