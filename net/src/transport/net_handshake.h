// The handshake of a new connection: authenticates both ends, and agrees on shared memory.
//
// Nothing is parsed as a message before the peer is authenticated. At a unix socket SO_PEERCRED proves that
// both ends belong to one user; over TCP, TLS proves that both have keys in comm.allowed. Only then each side
// sends a hello, of a fixed length. The hello of a local client has a file descriptor of shared memory, which
// works between containers, too. If the server can map it, both sides change to ring buffers in it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include <heddle/comm_error.h>

#include "connection/connection.h"
#include "connection/socket.h"

namespace heddle::net_detail {

// A local peer has closed the connection after its hello, as a killed process does. This is no refusal.
class PeerLeft : public CommError {
 public:
  using CommError::CommError;
};

class Handshake {
 public:
  enum class Side { client, server };
  // `memory`: this side wants shared memory, which only a `local` connection (a unix socket) can have.
  Handshake(Side side, bool local, bool memory);

  // Continues as far as possible without blocking. True: the handshake is complete, and `connection` may have
  // been replaced by one over shared memory. Throws CommError if it fails.
  bool step(std::unique_ptr<net_detail::Connection>& connection);
  bool wants_to_send() const { return sending_; }
  bool shares_memory() const { return shares_memory_; }  // valid once step() has returned true

 private:
  static constexpr std::size_t kBytes = 16;

  bool send(net_detail::Connection& connection);
  bool receive(net_detail::Connection& connection);
  bool receive_with_memory(const net_detail::Socket& socket);
  void offer_memory();
  void accept_memory();
  void encode(bool memory);
  bool decode() const;  // decodes the other side's hello; returns whether it offers, or takes, shared memory

  const Side side_;
  const bool local_, wants_memory_;
  bool sending_, shares_memory_ = false;
  std::size_t done_ = 0;  // bytes of the hello that have been sent or received
  std::array<std::byte, kBytes> hello_{};
  net_detail::Socket file_;            // descriptor of the shared memory
  std::shared_ptr<std::byte> memory_;  // the mapped memory; empty: none is shared
};

}  // namespace heddle::net_detail
