// Messages over one connection: the one that is being sent, and the one that is being received.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "net/connection.h"
#include "transport/frame.h"
#include "transport/send_queue.h"
#include "transport/transport.h"

namespace heddle::kv_detail {

// What has come of an attempt to send or to receive.
struct Moved {
  bool any = false;     // bytes have been moved
  bool closed = false;  // the connection has ended
  bool more = false;    // there may be more to move at once
};

// Sends messages by priority. Small ones go together, in one call; a large payload is sent from where it lies.
class MessageSender {
 public:
  void push(Message message) { queue_.push(std::move(message)); }
  bool empty() const { return queue_.empty() && left() == 0; }
  std::size_t bytes() const { return queue_.bytes() + left(); }
  Moved send(comm_detail::Connection& connection);

 private:
  std::size_t left() const { return batch_.size() + payload_.bytes.size() - sent_; }
  void next();

  SendQueue queue_;
  std::vector<std::byte> batch_;  // small messages, and the preamble and head of a large one
  Payload payload_;               // of that
  std::size_t sent_ = 0;          // bytes of the batch and the payload
};

// Receives messages. One call of the system fetches a message, or several small ones, or the beginning of a large one,
// whose payload then goes straight to the receiver's memory.
class MessageReceiver {
 public:
  MessageReceiver(const FrameLimits& limits, Receiver& receiver, Peer peer)
      : limits_(limits), receiver_(receiver), peer_(peer) {}
  // Calls the receiver for every message that is complete, until `gone` is set in one of the calls. Exceptions are those
  // of the receiver, and CommError for a broken message. `at_once`: less than asked for means that there is no more.
  Moved receive(comm_detail::Connection& connection, bool at_once, const bool& gone);

 private:
  comm_detail::Step fetch(comm_detail::Connection& connection, std::size_t& asked);
  void make_room();
  bool parse(const bool& gone);
  bool begin_payload(const bool& gone);
  void finish(const bool& gone);
  std::span<std::byte> buffered() { return std::span(buffer_).subspan(begin_, end_ - begin_); }

  const FrameLimits limits_;
  Receiver& receiver_;
  const Peer peer_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0,
              end_ = 0;  // of what has been received into it and not been used: first the head of preamble_
  std::optional<Preamble> preamble_;
  bool in_payload_ = false;             // the head has come and has been checked
  std::span<std::byte> payload_;        // where it goes
  std::size_t filled_ = 0;              // bytes of it
  std::size_t in_buffer_ = 0;           // bytes of it that are in the buffer, behind the head
  std::unique_ptr<std::byte[]> own_{};  // memory for it, if the receiver has none
};

}  // namespace heddle::kv_detail
