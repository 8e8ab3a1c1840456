#include "tcp/message.h"

#include <algorithm>
#include <cstring>

namespace heddle::comm_detail {
namespace {

// The most bytes that are sent in one step. A thread does not receive while it sends, and a peer that waits
// for it to receive must not wait for long.
constexpr std::size_t kMaxAtOnce = 512 * 1024;

}  // namespace

void deliver(const Transfer& transfer, std::size_t begin, std::span<const std::byte> arriving,
             std::size_t element) {
  if (arriving.empty()) return;
  std::byte* in = transfer.in.data() + begin;
  const std::size_t count = arriving.size() / element;
  if (!transfer.combine) {
    std::memmove(in, arriving.data(), arriving.size());
  } else if (transfer.arriving_first) {
    transfer.combine(in, arriving.data(), in, count);
  } else {
    transfer.combine(in, in, arriving.data(), count);
  }
}

OutgoingMessage::OutgoingMessage(const CallRecord& call, std::span<const std::byte> body,
                                 const Transport::Missing& missing, std::uint64_t number, const Key& key)
    : header_{call, body.size(), number}, body_(body) {
  if (missing.rank >= 0) {
    header_.record.failed = 1;
    header_.missing = missing.rank;
    text_ = missing.why.substr(0, kMaxMissingText);
    header_.text = static_cast<std::uint32_t>(text_.size());
    text_.resize(body_size(header_));
  }
  size_ = kMessageHeader + body_size(header_);
  seal(header_, key);
}

Step::Outcome OutgoingMessage::step(Connection& connection) {
  const auto head = std::as_bytes(std::span(&header_, 1)).first(kMessageHeader);
  const auto body = header_.record.failed ? std::as_bytes(std::span(text_)) : body_;
  const std::size_t head_sent = std::min(at_, kMessageHeader), body_sent = at_ - head_sent;
  const auto next = body.subspan(body_sent, std::min(kMaxAtOnce, body.size() - body_sent));
  const Step step = connection.send(head.subspan(head_sent), next);
  if (step.outcome == Step::Outcome::moved) at_ += step.bytes;
  return step.outcome;
}

IncomingMessage::IncomingMessage(const Transfer& transfer, std::size_t element, std::span<std::byte> pieces)
    : transfer_(transfer),
      element_(transfer.combine ? element : 1),
      pieces_(pieces),
      size_(kMessageHeader + transfer.in.size()) {}

std::span<std::byte> IncomingMessage::room() {
  if (!header_complete()) return pieces_.first(std::min(transfer_.in.size(), kFirstPiece));
  if (!through_pieces()) return transfer_.in.subspan(consumed_);
  return pieces_.subspan(waiting_, std::min(pieces_.size() - waiting_, size_ - at_));
}

Step::Outcome IncomingMessage::step(Connection& connection) {
  const auto head = std::as_writable_bytes(std::span(&header_, 1)).first(kMessageHeader);
  const std::size_t before = std::min(at_, kMessageHeader);
  const bool to_pieces = through_pieces();
  const Step step = connection.receive(head.subspan(before), room());
  if (step.outcome != Step::Outcome::moved) return step.outcome;
  at_ += step.bytes;
  (to_pieces ? waiting_ : consumed_) += step.bytes - (std::min(at_, kMessageHeader) - before);
  return step.outcome;
}

void IncomingMessage::consume() {
  if (is_text()) {
    size_ = kMessageHeader + body_size(header_);
    return;
  }
  const std::size_t whole = waiting_ - waiting_ % element_;
  if (whole == 0) return;
  deliver(transfer_, consumed_, pieces_.first(whole), element_);
  consumed_ += whole;
  waiting_ -= whole;
  if (waiting_) std::memmove(pieces_.data(), pieces_.data() + whole, waiting_);
}

Transport::Missing IncomingMessage::missing() const {
  if (!is_text()) return {};
  return {header_.missing,
          printable(std::string(reinterpret_cast<const char*>(pieces_.data()), header_.text))};
}

}  // namespace heddle::comm_detail
