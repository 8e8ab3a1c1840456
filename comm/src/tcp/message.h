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
  // Makes an object without a message: done() is true.
  OutgoingMessage() = default;
  // Sends `body`, which is not copied. If `missing` names a rank, the text of `missing` is sent instead of
  // `body`.
  OutgoingMessage(const CallRecord& call, std::span<const std::byte> body, const Transport::Missing& missing,
                  std::uint64_t number, const Key& key);

  bool done() const { return at_ == size_; }
  Step::Outcome step(Connection& connection);

 private:
  MessageHeader header_{};
  std::span<const std::byte> body_{};
  std::string text_{};             // the text of `missing`, if it is sent instead of the body
  std::size_t at_ = 0, size_ = 0;  // bytes of header and body: sent so far, and in total
};

// Receives a message's body into Transfer::in, or combines it with that piece by piece; the pieces do not affect
// the result.
class IncomingMessage {
 public:
  // Makes an object without a message: done() is true.
  IncomingMessage() = default;
  // Bytes of `pieces`, the buffer of the constructor below: so few that data are combined while they are in
  // the L2 cache.
  static constexpr std::size_t kPieces = 128 * 1024;
  // `pieces`, of kPieces bytes, is a buffer for data that are not received directly into Transfer::in.
  IncomingMessage(const Transfer& transfer, std::size_t element, std::span<std::byte> pieces);

  bool done() const { return at_ == size_; }
  // Receives what has arrived. As soon as the header is complete, and after each later step, the caller calls
  // consume(), the first time after it has checked the header. Transfer::in is not written before that.
  Step::Outcome step(Connection& connection);
  bool header_complete() const { return at_ >= kMessageHeader; }
  const MessageHeader& header() const { return header_; }
  std::size_t wanted() const { return transfer_.in.size(); }
  void consume();
  // The text that was received instead of data, and the rank that has no data. Valid once done(). Rank -1:
  // data were received.
  Transport::Missing missing() const;

 private:
  bool is_text() const { return header_complete() && header_.record.failed; }
  bool through_pieces() const { return !header_complete() || is_text() || transfer_.combine; }
  std::span<std::byte> room();

  MessageHeader header_{};
  Transfer transfer_{};
  std::size_t element_ = 1;
  std::span<std::byte> pieces_{};
  std::size_t at_ = 0, size_ = 0;           // bytes of header and body: received so far, and in total
  std::size_t waiting_ = 0, consumed_ = 0;  // bytes in pieces_; bytes of the body in Transfer::in
};

// Combines `arriving`, the bytes of a message from byte `begin` on, with the same bytes of Transfer::in, by
// Transfer::combine; copies them if there is no combine.
void deliver(const Transfer& transfer, std::size_t begin, std::span<const std::byte> arriving,
             std::size_t element);

}  // namespace heddle::comm_detail
