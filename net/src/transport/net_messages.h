// Sends and receives messages over one connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "connection/connection.h"
#include "transport/frame.h"
#include "transport/send_queue.h"
#include "transport/transport.h"

namespace heddle::net_detail {

// Result of an attempt to send or to receive.
struct Moved {
  bool any = false;     // whether bytes have been moved
  bool closed = false;  // whether the connection has ended
  bool more = false;    // whether there may be more bytes to move at once
};

// Sends messages by priority. Small ones go together, in one call; a large payload is sent without a copy.
class MessageSender {
 public:
  void push(Message message) { queue_.push(std::move(message)); }
  bool empty() const { return queue_.empty() && left() == 0; }
  std::size_t bytes() const { return queue_.bytes() + left(); }
  Moved send(net_detail::Connection& connection);

 private:
  std::size_t left() const { return batch_.size() + payload_.bytes.size() - sent_; }
  void next();

  SendQueue queue_;
  std::vector<std::byte> batch_;  // small messages, and the preamble and head of a large one
  Payload payload_;               // payload of the large message
  std::size_t sent_ = 0;          // bytes of the batch and the payload that have been sent
};

// Receives messages. One system call fetches a message, or several small ones, or the beginning of a large
// one, whose payload then goes straight to the receiver's memory.
class MessageReceiver {
 public:
  MessageReceiver(const FrameLimits& limits, Receiver& receiver, Peer peer)
      : limits_(limits), receiver_(receiver), peer_(peer) {}
  // Calls the receiver for every complete message, until `gone` is set in one of the calls. Throws what the
  // receiver throws, and CommError for a broken message. `at_once`: a short read means that there is no more.
  Moved receive(net_detail::Connection& connection, bool at_once, const bool& gone);

 private:
  net_detail::Step fetch(net_detail::Connection& connection, std::size_t& asked);
  void make_room();
  bool parse(const bool& gone);
  bool begin_payload(const bool& gone);
  void finish(const bool& gone);
  std::span<std::byte> buffered() { return std::span(buffer_).subspan(begin_, end_ - begin_); }

  const FrameLimits limits_;
  Receiver& receiver_;
  const Peer peer_;
  std::vector<std::byte> buffer_;
  // The received bytes of buffer_ that have not been used: first the head that preamble_ announces.
  std::size_t begin_ = 0, end_ = 0;
  std::optional<Preamble> preamble_;
  bool in_payload_ = false;             // whether the head has come and has been checked
  std::span<std::byte> payload_;        // memory of the payload
  std::size_t filled_ = 0;              // bytes of the payload that have come
  std::size_t in_buffer_ = 0;           // bytes of the payload that are in the buffer, behind the head
  std::unique_ptr<std::byte[]> own_{};  // memory for the payload, if the receiver has none
};

}  // namespace heddle::net_detail
