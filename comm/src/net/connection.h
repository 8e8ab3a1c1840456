// A connection with one other rank that carries bytes in order, both ways, and never blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <poll.h>
#include <span>
#include <string>

#include "net/socket.h"

namespace heddle::comm_detail {

// What a step without blocking has come to. `bytes` counts only with moved.
struct Step {
  enum class Outcome : std::uint8_t { moved, would_block, closed };
  Outcome outcome = Outcome::would_block;
  std::size_t bytes = 0;
};

// One thread at a time.
class Connection {
 public:
  virtual ~Connection() = default;
  // Both take the head first, then the body. An error of the connection is closed. What would block is sent again as it
  // was, or with more behind it.
  virtual Step send(std::span<const std::byte> head, std::span<const std::byte> body) = 0;
  virtual Step receive(std::span<std::byte> head, std::span<std::byte> body) = 0;
  // What to poll for after the wanted ones would block. Nothing: something has changed since; try again.
  virtual std::optional<pollfd> before_sleep(bool to_send, bool to_receive) = 0;
  // The connection beneath, to be tuned.
  virtual const Socket& socket() const = 0;
  // Why one cannot talk to the other side at all, once that is closed: "it shows ..." Empty: for no reason of this kind.
  virtual std::string trouble() const { return {}; }

  // Nothing more is sent; the other side sees the end after all that came before.
  virtual void finish_sending() = 0;
  // The other kernel has everything, or the connection is gone. What arrives meanwhile is thrown away.
  virtual bool all_delivered() = 0;
};

std::unique_ptr<Connection> plain_connection(Socket socket);

// Connection::all_delivered of the connection itself.
bool nothing_on_its_way(const Socket& socket);

}  // namespace heddle::comm_detail
