// One message on its way out of, or into, a data connection, in as many steps as the kernel's buffers make of it.
#pragma once

#include <span>
#include <string>

#include "core/transport.h"
#include "net/connection.h"
#include "tcp/frame.h"

namespace heddle::comm_detail {

class OutgoingMessage {
 public:
  // Nothing to send.
  OutgoingMessage() = default;
  // `body` is not copied, and not sent if there is something missing.
  OutgoingMessage(const CallRecord& call, std::span<const std::byte> body, const Transport::Missing& missing,
                  std::uint64_t number, const Key& key);

  bool done() const { return at_ == size_; }
  Step::Outcome step(Connection& connection);

 private:
  MessageHeader header_{};
  std::span<const std::byte> body_{};
  std::string text_{};             // instead of the body
  std::size_t at_ = 0, size_ = 0;  // of header and body
};

// Where the body goes: into `in`, or combined with it piece by piece, in an order that does not depend on the pieces.
class IncomingMessage {
 public:
  // Nothing to receive.
  IncomingMessage() = default;
  // `pieces`, kPieces bytes, is where arrives what cannot go into `in` itself.
  static constexpr std::size_t kPieces =
      128 * 1024;  // small enough to be combined while it is in the second-level cache
  IncomingMessage(const Transfer& transfer, std::size_t element, std::span<std::byte> pieces);

  bool done() const { return at_ == size_; }
  // `in` is left alone until somebody has looked at the header: call take() after that, and after each step.
  Step::Outcome step(Connection& connection);
  bool header_complete() const { return at_ >= kMessageHeader; }
  const MessageHeader& header() const { return header_; }
  std::size_t wanted() const { return transfer_.in.size(); }
  void take();
  // What came instead of data, when it is done; rank -1: nothing.
  Transport::Missing missing() const;

 private:
  bool is_text() const { return header_complete() && header_.record.failed; }
  bool through_pieces() const { return !header_complete() || is_text() || transfer_.combine; }
  std::span<std::byte> room();

  MessageHeader header_{};
  Transfer transfer_{};
  std::size_t element_ = 1;
  std::span<std::byte> pieces_{};
  std::size_t at_ = 0, size_ = 0;        // of header and body
  std::size_t waiting_ = 0, taken_ = 0;  // bytes in pieces_; bytes of the body that are in `in`
};

// in = combine(in, arriving), or the other way round; without a combine it is a copy. From the byte `begin` of `in` on.
void deliver(const Transfer& transfer, std::size_t begin, std::span<const std::byte> arriving,
             std::size_t element);

}  // namespace heddle::comm_detail
