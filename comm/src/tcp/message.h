// A message that is sent to or received from a data connection, in as many steps as the kernel's buffers need.
#pragma once

#include <span>
#include <string>

#include "connection/connection.h"
#include "core/transport.h"
#include "tcp/frame.h"

namespace heddle::comm_detail {

using namespace net_detail;

class OutgoingMessage {
 public:
  // No message: done() is true.
  OutgoingMessage() = default;
  // `body` is not copied. If `missing` names a rank, its text is sent instead.
  OutgoingMessage(const CallRecord& call, std::span<const std::byte> body, const Transport::Missing& missing,
                  std::uint64_t number, const Key& key);

  bool done() const { return at_ == size_; }
  Step::Outcome step(Connection& connection);

 private:
  MessageHeader header_{};
  std::span<const std::byte> body_{};
  std::string text_{};             // sent instead of the body
  std::size_t at_ = 0, size_ = 0;  // bytes of header and body: sent, in total
};

// Receives a message's body into Transfer::in, or combines it with that piece by piece; the pieces do not affect
// the result.
class IncomingMessage {
 public:
  // No message: done() is true.
  IncomingMessage() = default;
  // The size of `pieces`: small enough that the data are combined while they are in the L2 cache.
  static constexpr std::size_t kPieces = 128 * 1024;
  // `pieces`, kPieces bytes, receives data that are not received directly into Transfer::in.
  IncomingMessage(const Transfer& transfer, std::size_t element, std::span<std::byte> pieces);

  bool done() const { return at_ == size_; }
  // Transfer::in is not written before consume(), which is called after the header has been checked, and after each
  // later step.
  Step::Outcome step(Connection& connection);
  bool header_complete() const { return at_ >= kMessageHeader; }
  const MessageHeader& header() const { return header_; }
  std::size_t wanted() const { return transfer_.in.size(); }
  void consume();
  // The text that was received instead of data, once done(); rank -1: data were received.
  Transport::Missing missing() const;

 private:
  bool is_text() const { return header_complete() && header_.record.failed; }
  bool through_pieces() const { return !header_complete() || is_text() || transfer_.combine; }
  std::span<std::byte> room();

  MessageHeader header_{};
  Transfer transfer_{};
  std::size_t element_ = 1;
  std::span<std::byte> pieces_{};
  std::size_t at_ = 0, size_ = 0;           // bytes of header and body: received, in total
  std::size_t waiting_ = 0, consumed_ = 0;  // bytes in pieces_; bytes of the body in Transfer::in
};

// Combines `arriving` with Transfer::in from byte `begin` on, as Transfer says; copies it if there is no combine.
void deliver(const Transfer& transfer, std::size_t begin, std::span<const std::byte> arriving,
             std::size_t element);

}  // namespace heddle::comm_detail
