// A nonblocking, ordered, bidirectional byte stream to another process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <poll.h>
#include <span>
#include <string>

#include "connection/socket.h"

namespace heddle::net_detail {

// The result of a nonblocking send or receive. `bytes` is set for `moved` only.
struct Step {
  enum class Outcome : std::uint8_t { moved, would_block, closed };
  Outcome outcome = Outcome::would_block;
  std::size_t bytes = 0;
};

// One thread at a time.
class Connection {
 public:
  virtual ~Connection() = default;
  // send() and receive() transfer the head first, then the body. An error of the connection is returned as
  // `closed`. After send() has returned would_block, the next send() must get the same bytes, possibly
  // followed by more.
  virtual Step send(std::span<const std::byte> head, std::span<const std::byte> body) = 0;
  virtual Step receive(std::span<std::byte> head, std::span<std::byte> body) = 0;
  // Returns what to poll for after send(), receive() or both have returned would_block. nullopt: the
  // connection is ready now.
  virtual std::optional<pollfd> before_sleep(bool to_send, bool to_receive) = 0;
  // The underlying socket, for socket options.
  virtual const Socket& socket() const = 0;
  // Why the two sides cannot communicate, such as a key that is not accepted. Valid once the connection is
  // closed; empty: there is no such reason.
  virtual std::string handshake_error() const { return {}; }
  // The fingerprint of the key that the peer has proven to have; empty: it has proven none.
  virtual std::string peer_key() const { return {}; }

  // Ends the stream to the peer, which receives everything that was sent before.
  virtual void finish_sending() = 0;
  // Whether the peer's kernel has received everything, or the connection has ended. Discards data that arrive.
  virtual bool all_delivered() = 0;
};

std::unique_ptr<Connection> plain_connection(Socket socket);

// Does what Connection::all_delivered() does, for a TCP socket.
bool all_acknowledged(const Socket& socket);

}  // namespace heddle::net_detail
