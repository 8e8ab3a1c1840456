// How the two ends of a new connection make sure of each other, and agree on shared memory.
//
// Nothing is parsed as a message before the peer is authenticated. At a unix socket SO_PEERCRED proves that both ends
// belong to one user; over TCP, TLS proves that both have keys of the list. Only then each side sends a hello, of a
// fixed length. The hello of a local client brings memory along, as a file descriptor, which works between
// containers too; if the server can map it, both change to ring buffers in it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include <heddle/comm_error.h>

#include "net/connection.h"
#include "net/socket.h"

namespace heddle::kv_detail {

// A process of this host has said all that it had to and has gone since, as one that is ended: nobody was refused.
class PeerLeft : public CommError {
 public:
  using CommError::CommError;
};

class Handshake {
 public:
  enum class Side { client, server };
  // `memory`: this side wants shared memory; only if the connection is a unix socket.
  Handshake(Side side, bool local, bool memory);

  // Goes on as far as it can; true: it is over. `connection` may be another one then. Throws CommError if it has failed.
  bool step(std::unique_ptr<comm_detail::Connection>& connection);
  bool wants_to_send() const { return sending_; }
  bool shares_memory() const { return shares_memory_; }  // once it is over

 private:
  static constexpr std::size_t kBytes = 16;

  bool send(comm_detail::Connection& connection);
  bool receive(comm_detail::Connection& connection);
  bool receive_with_memory(const comm_detail::Socket& socket);
  void offer_memory();
  void accept_memory();
  void encode(bool memory);
  bool decode() const;  // whether the other side has, or takes, the memory

  const Side side_;
  const bool local_, wants_memory_;
  bool sending_, shares_memory_ = false;
  std::size_t done_ = 0;  // bytes of the hello that is sent or received
  std::array<std::byte, kBytes> hello_{};
  comm_detail::Socket file_;           // of the memory
  std::shared_ptr<std::byte> memory_;  // mapped; empty: none is shared
};

}  // namespace heddle::kv_detail
