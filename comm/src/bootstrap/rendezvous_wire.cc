#include "bootstrap/rendezvous_wire.h"

#include <array>
#include <cstring>
#include <span>
#include <sys/socket.h>

namespace heddle::comm_detail {
namespace {

void check(const FrameHeader& header, int job_size) {
  if (header.magic != FrameHeader::kMagic) throw BadFrame("what came is no message of a Heddle job");
  if (header.version != FrameHeader::kVersion) {
    throw BadFrame("this is version " + std::to_string(FrameHeader::kVersion) +
                   " of the rendezvous, the other side has " + std::to_string(header.version));
  }
  if (header.length > kLongestText) throw BadFrame("a message is longer than 64 KiB");
  if (header.type < FrameType::hello || header.type > FrameType::failure)
    throw BadFrame("an unknown message");
  // Hellos and failures may have any size: rank 0 compares it, and answers a rank of another job with a failure.
  const bool any_size = header.type == FrameType::hello || header.type == FrameType::failure;
  if (!any_size && header.size != job_size) throw BadFrame("a message of a job of another size");
  if (header.rank < -1 || header.rank >= header.size)
    throw BadFrame("a message of a rank that does not exist");
}

}  // namespace

bool Channel::receive() {
  constexpr std::size_t kMaxBuffered = sizeof(FrameHeader) + kLongestText;
  std::array<char, 8192> buffer;
  while (in_.size() < kMaxBuffered) {
    const Step step = connection_->receive(std::as_writable_bytes(std::span(buffer)), {});
    if (step.outcome != Step::Outcome::moved) return step.outcome == Step::Outcome::would_block;
    in_.append(buffer.data(), step.bytes);
  }
  return true;
}

bool Channel::sent_plain_hello() const {
  std::uint32_t magic = 0;
  const auto there = ::recv(connection_->socket().fd(), &magic, sizeof magic, MSG_PEEK | MSG_DONTWAIT);
  return there == sizeof magic && magic == FrameHeader::kMagic;
}

void Channel::send_plain(FrameHeader header, const std::string& text) const {
  // The received bytes are read first: closing a socket with unread bytes would discard the answer.
  std::array<char, 4096> unread;
  while (::recv(connection_->socket().fd(), unread.data(), unread.size(), MSG_DONTWAIT) > 0) continue;
  std::string frame;
  pack(frame, header, text);
  (void)!::send(connection_->socket().fd(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

std::optional<Frame> Channel::next(int job_size) {
  Frame frame;
  const std::size_t there = in_.size() < sizeof frame.header ? in_.size() : sizeof frame.header;
  if (there >= sizeof frame.header.magic) {
    std::memcpy(&frame.header.magic, in_.data(), sizeof frame.header.magic);
    // A wrong magic number throws at once, since the header may never be complete.
    if (frame.header.magic != FrameHeader::kMagic) check(frame.header, job_size);
  }
  if (there < sizeof frame.header) return std::nullopt;
  std::memcpy(&frame.header, in_.data(), sizeof frame.header);
  check(frame.header, job_size);
  if (in_.size() < sizeof frame.header + frame.header.length) return std::nullopt;
  frame.text = in_.substr(sizeof frame.header, frame.header.length);
  in_.erase(0, sizeof frame.header + frame.header.length);
  return frame;
}

void pack(std::string& into, FrameHeader header, const std::string& text) {
  header.length = static_cast<std::uint32_t>(text.size());
  into.append(reinterpret_cast<const char*>(&header), sizeof header);
  into += text;
}

void Channel::post(FrameHeader header, const std::string& text) {
  std::string frame;
  pack(frame, header, text);
  post(std::make_shared<const std::string>(std::move(frame)));
}

bool Channel::flush() {
  while (has_unsent()) {
    const std::string& first = *out_.front();
    const Step step = connection_->send(std::as_bytes(std::span(first)).subspan(sent_), {});
    if (step.outcome != Step::Outcome::moved) return step.outcome == Step::Outcome::would_block;
    sent_ += step.bytes;
    if (sent_ < first.size()) continue;
    out_.pop_front();
    sent_ = 0;
  }
  return true;
}

}  // namespace heddle::comm_detail
