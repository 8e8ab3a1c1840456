#include "transport/net_messages.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include <heddle/comm_error.h>

namespace heddle::net_detail {
namespace {

using net_detail::Connection;
using net_detail::Step;

constexpr std::size_t kSmallPayload = 1024;  // bytes up to which a copy costs less than a system call
constexpr std::size_t kBatch = 16 << 10;     // bytes of a batch: as many as a TLS record has
// Bytes that are received before the length of a message is known.
constexpr std::size_t kFirstPiece = 8 << 10;
// Limits of a connection before others are handled: bytes, and time, as small messages may be a lot of work.
constexpr std::size_t kMostAtOnce = 4 << 20;
constexpr std::chrono::milliseconds kLongestTurn{10};

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

// Fills the next batch. Messages that come later, also of a higher priority, wait until it is sent.
void MessageSender::next() {
  batch_.clear();
  payload_ = {};
  sent_ = 0;
  while (!queue_.empty() && batch_.size() < kBatch && payload_.bytes.empty()) {
    Message message = queue_.pop();
    append(batch_, encode(preamble_of(message.head, message.payload.bytes)));
    append(batch_, message.head);
    if (message.payload.bytes.size() > kSmallPayload) {
      payload_ = std::move(message.payload);
    } else {
      append(batch_, message.payload.bytes);
    }
  }
}

Moved MessageSender::send(Connection& connection) {
  Moved moved;
  for (std::size_t total = 0; total < kMostAtOnce;) {
    if (left() == 0) next();
    if (left() == 0) return moved;
    const std::size_t in_batch = std::min(sent_, batch_.size());
    const Step step =
        connection.send(std::span(batch_).subspan(in_batch), payload_.bytes.subspan(sent_ - in_batch));
    moved.closed = step.outcome == Step::Outcome::closed;
    if (step.outcome != Step::Outcome::moved) return moved;
    moved.any = true;
    total += step.bytes;
    sent_ += step.bytes;
    if (left() == 0) payload_ = {}, batch_.clear(), sent_ = 0;
  }
  moved.more = !empty();
  return moved;
}

Moved MessageReceiver::receive(Connection& connection, bool at_once, const bool& gone) {
  using Clock = std::chrono::steady_clock;
  Moved moved;
  Clock::time_point begin{};  // when the second piece is received; most often there is only one piece
  std::size_t pieces = 0;
  for (std::size_t total = 0; total < kMostAtOnce && !gone; ++pieces) {
    if (pieces == 1) begin = Clock::now();
    if (pieces > 1 && Clock::now() - begin > kLongestTurn) break;
    std::size_t asked = 0;
    const Step step = fetch(connection, asked);
    moved.closed = step.outcome == Step::Outcome::closed;
    if (step.outcome != Step::Outcome::moved) return moved;
    moved.any = true;
    total += step.bytes;
    while (!gone && parse(gone)) continue;
    if (at_once && step.bytes < asked) return moved;
  }
  moved.more = true;
  return moved;
}

// One call fills the rest of the payload, and the buffer with what follows it.
Step MessageReceiver::fetch(Connection& connection, std::size_t& asked) {
  make_room();
  const auto room = std::span(buffer_).subspan(end_);
  const auto rest = in_payload_ ? payload_.subspan(filled_) : std::span<std::byte>{};
  asked = rest.size() + room.size();
  const Step step = rest.empty() ? connection.receive(room, {}) : connection.receive(rest, room);
  if (step.outcome != Step::Outcome::moved) return step;
  const std::size_t of_payload = std::min(step.bytes, rest.size());
  filled_ += of_payload;
  end_ += step.bytes - of_payload;
  return step;
}

// The head of the current message stays in the buffer until its payload has come.
void MessageReceiver::make_room() {
  if (begin_ == end_ && !preamble_) begin_ = end_ = 0;
  const std::size_t needed = kFirstPiece + (preamble_ ? preamble_->head_bytes : 0);
  if (buffer_.size() - begin_ >= needed && buffer_.size() > end_) return;
  if (begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= std::exchange(begin_, 0);
  if (buffer_.size() < needed) buffer_.resize(needed);
}

// Handles one message. False: more bytes are needed.
bool MessageReceiver::parse(const bool& gone) {
  if (!preamble_) {
    if (buffered().size() < kPreambleBytes) return false;
    preamble_ = decode(std::span<const std::byte>(buffered()).first<kPreambleBytes>(), limits_);
    begin_ += kPreambleBytes;
  }
  if (!in_payload_ && !begin_payload(gone)) return false;
  if (gone || filled_ < preamble_->payload_bytes) return false;
  finish(gone);
  return true;
}

// Finds the payload's memory. False: the head has not come yet.
bool MessageReceiver::begin_payload(const bool& gone) {
  const std::size_t head_bytes = preamble_->head_bytes, bytes = preamble_->payload_bytes;
  if (buffered().size() < head_bytes) return false;
  const auto head = buffered().first(head_bytes), behind = buffered().subspan(head_bytes);
  check_head(*preamble_, head);
  in_payload_ = true;
  in_buffer_ = filled_ = std::min(behind.size(), bytes);
  payload_ = {};
  if (bytes == 0) return true;
  payload_ = receiver_.memory_for(peer_, head, bytes);
  if (gone) return true;
  if (!payload_.empty() && payload_.size() < bytes)
    throw CommError("there is too little memory for the payload");
  if (payload_.empty() && filled_ == bytes) {  // a complete payload may stay in the buffer
    payload_ = behind.first(bytes);
    return true;
  }
  if (payload_.empty()) {
    own_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    payload_ = {own_.get(), bytes};
  }
  payload_ = payload_.first(bytes);
  std::memcpy(payload_.data(), behind.data(), filled_);
  if (filled_ < bytes) end_ -= std::exchange(in_buffer_, 0);
  return true;
}

void MessageReceiver::finish(const bool& gone) {
  check_payload(*preamble_, payload_);
  const std::size_t head_bytes = preamble_->head_bytes;
  receiver_.received(peer_, buffered().first(head_bytes), payload_);
  if (gone) return;
  begin_ += head_bytes + in_buffer_;
  preamble_.reset();
  in_payload_ = false;
  payload_ = {};
  own_.reset();
}

}  // namespace heddle::net_detail
