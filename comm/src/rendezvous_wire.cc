#include "rendezvous_wire.h"

#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <unistd.h>

namespace heddle::detail {
namespace {

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

void check(const FrameHeader& header, int job_size) {
  if (header.magic != FrameHeader::kMagic) throw BadFrame("what came is no message of a Heddle job");
  if (header.version != FrameHeader::kVersion) {
    throw BadFrame("this is version " + std::to_string(FrameHeader::kVersion) +
                   " of the rendezvous, the other side has " + std::to_string(header.version));
  }
  if (header.length > kLongestText) throw BadFrame("a message is longer than 64 KiB");
  if (header.type < FrameType::hello || header.type > FrameType::failure)
    throw BadFrame("an unknown message");
  // Who is of another job is told so: by rank 0, which compares, in a failure.
  const bool any_size = header.type == FrameType::hello || header.type == FrameType::failure;
  if (!any_size && header.size != job_size) throw BadFrame("a message of a job of another size");
  if (header.rank < -1 || header.rank >= header.size)
    throw BadFrame("a message of a rank that does not exist");
}

}  // namespace

Channel::~Channel() { ::close(socket_); }

bool Channel::receive() {
  constexpr std::size_t kMost = sizeof(FrameHeader) + kLongestText;
  char buffer[8192];
  while (in_.size() < kMost) {
    const ssize_t count = ::recv(socket_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (count == 0) return false;
    if (count < 0) return would_block();
    in_.append(buffer, static_cast<std::size_t>(count));
  }
  return true;
}

std::optional<Frame> Channel::next(int job_size) {
  Frame frame;
  const std::size_t there = in_.size() < sizeof frame.header ? in_.size() : sizeof frame.header;
  if (there >= sizeof frame.header.magic) {
    std::memcpy(&frame.header.magic, in_.data(), sizeof frame.header.magic);
    if (frame.header.magic != FrameHeader::kMagic) check(frame.header, job_size);  // need not be long enough
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
    const ssize_t count =
        ::send(socket_, first.data() + sent_, first.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0) return would_block();
    sent_ += static_cast<std::size_t>(count);
    if (sent_ < first.size()) continue;
    out_.pop_front();
    sent_ = 0;
  }
  return true;
}

}  // namespace heddle::detail
