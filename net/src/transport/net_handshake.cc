#include "transport/net_handshake.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <span>
#include <sys/socket.h>
#include <sys/stat.h>
#include <utility>

#include <heddle/comm_error.h>

#include "connection/ring_connection.h"
#include "connection/shared_memory.h"
#include "transport/frame.h"

namespace heddle::net_detail {
namespace {

using net_detail::Connection;
using net_detail::Ring;
using net_detail::Socket;
using net_detail::Step;

constexpr std::array<std::byte, 4> kHelloMagic = {std::byte{'H'}, std::byte{'D'}, std::byte{'K'},
                                                  std::byte{'H'}};
constexpr std::byte kHelloVersion{1};

// The layout of the shared memory, which the client allocates.
struct Rings {
  Ring up, down;  // up: to the server; down: to the client
};

// A message of sendmsg() or recvmsg() with room for one file descriptor beside its bytes.
struct AttachedMessage {
  explicit AttachedMessage(std::span<std::byte> bytes) : part{bytes.data(), bytes.size()} {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
  AttachedMessage(const AttachedMessage&) = delete;
  AttachedMessage& operator=(const AttachedMessage&) = delete;
  iovec part;
  alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof(int))]{};
  msghdr message{};
};

// Takes the file descriptor of a received message, if it has one. The kernel delivers no more than fit.
Socket descriptor_in(msghdr& message) {
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  const bool there = header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
                     header->cmsg_len == CMSG_LEN(sizeof(int));
  if (!there) return {};
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return Socket(fd);
}

[[noreturn]] void fail(const Connection& connection) {
  const std::string why = connection.handshake_error();
  throw CommError(why.empty() ? "the other side has refused the connection" : why);
}

}  // namespace

Handshake::Handshake(Side side, bool local, bool memory)
    : side_(side), local_(local), wants_memory_(local && memory), sending_(side == Side::client) {
  if (side_ == Side::client) {
    if (wants_memory_) offer_memory();
    encode(memory_ != nullptr);
  }
}

bool Handshake::step(std::unique_ptr<Connection>& connection) {
  if (side_ == Side::client && sending_ && !send(*connection)) return false;
  if (side_ == Side::client || !sending_) {
    if (!receive(*connection)) return false;
    if (side_ == Side::client && !decode()) memory_.reset();
    if (side_ == Side::server) {
      if (decode()) accept_memory();
      encode(memory_ != nullptr);
      sending_ = true;
    }
  }
  if (side_ == Side::server && !send(*connection)) return false;
  file_.close();
  shares_memory_ = memory_ != nullptr;
  if (memory_) {
    auto& rings = *reinterpret_cast<Rings*>(memory_.get());
    Ring &out = side_ == Side::client ? rings.up : rings.down,
         &in = side_ == Side::client ? rings.down : rings.up;
    connection = net_detail::ring_connection(std::move(connection), out, in, std::move(memory_));
  }
  return true;
}

bool Handshake::send(Connection& connection) {
  if (side_ == Side::client && memory_) {  // the buffer of a new connection is empty: all is sent, or nothing
    AttachedMessage attached(hello_);
    cmsghdr* header = CMSG_FIRSTHDR(&attached.message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = file_.fd();
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
    const ssize_t sent = sendmsg(connection.socket().fd(), &attached.message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (sent != static_cast<ssize_t>(kBytes)) fail(connection);
    done_ = kBytes;
  }
  while (done_ < kBytes) {
    const Step step = connection.send(std::span<const std::byte>(hello_).subspan(done_), {});
    if (step.outcome == Step::Outcome::closed && local_ && side_ == Side::server)
      throw PeerLeft("the other side has closed the connection");
    if (step.outcome == Step::Outcome::closed) fail(connection);
    if (step.outcome == Step::Outcome::would_block) return false;
    done_ += step.bytes;
  }
  done_ = 0;
  sending_ = false;
  return true;
}

bool Handshake::receive(Connection& connection) {
  if (local_ && side_ == Side::server) return receive_with_memory(connection.socket());
  while (done_ < kBytes) {
    const Step step = connection.receive(std::span(hello_).subspan(done_), {});
    if (step.outcome == Step::Outcome::closed) fail(connection);
    if (step.outcome == Step::Outcome::would_block) return false;
    done_ += step.bytes;
  }
  done_ = 0;
  return true;
}

bool Handshake::receive_with_memory(const Socket& socket) {
  while (done_ < kBytes) {
    AttachedMessage attached(std::span<std::byte>(hello_).subspan(done_));
    const ssize_t got = recvmsg(socket.fd(), &attached.message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got <= 0) throw CommError("the other side has closed the connection");
    if (Socket file = descriptor_in(attached.message)) file_ = std::move(file);
    done_ += static_cast<std::size_t>(got);
  }
  done_ = 0;
  return true;
}

// If no shared memory can be allocated, messages go through the socket.
void Handshake::offer_memory() {
  try {
    file_ = net_detail::make_memory(sizeof(Rings));
    memory_ = net_detail::map_memory(file_, sizeof(Rings));
  } catch (const CommError&) {
    file_.close();
  }
}

// The client may have sent any file. One that can be truncated would raise SIGBUS here.
void Handshake::accept_memory() {
  if (!wants_memory_ || !file_) return;
  struct stat found {};
  const int seals = fcntl(file_.fd(), F_GET_SEALS);
  const bool good = fstat(file_.fd(), &found) == 0 && S_ISREG(found.st_mode) &&
                    found.st_size == static_cast<off_t>(sizeof(Rings)) && seals >= 0 &&
                    (seals & F_SEAL_SHRINK) != 0;
  if (!good) throw CommError("the memory that the other side shares is not what it should be");
  try {
    memory_ = net_detail::map_memory(file_, sizeof(Rings));
  } catch (const CommError&) {  // the answer tells the client to use the socket
  }
}

// Bytes of a hello: magic 4, version 1, memory flag 1, zeros 6, checksum 4.
void Handshake::encode(bool memory) {
  hello_ = {};
  std::memcpy(hello_.data(), kHelloMagic.data(), kHelloMagic.size());
  hello_[4] = kHelloVersion;
  hello_[5] = std::byte{memory};
  const std::uint32_t sum = checksum(std::span(hello_).first(kBytes - 4));
  for (std::size_t i = 0; i < 4; ++i) hello_[kBytes - 4 + i] = static_cast<std::byte>(sum >> 8 * i);
}

bool Handshake::decode() const {
  const std::uint32_t sum = checksum(std::span(hello_).first(kBytes - 4));
  bool good =
      std::memcmp(hello_.data(), kHelloMagic.data(), kHelloMagic.size()) == 0 && hello_[5] <= std::byte{1};
  for (std::size_t i = 0; i < 4; ++i)
    good = good && hello_[kBytes - 4 + i] == static_cast<std::byte>(sum >> 8 * i);
  if (!good) throw CommError("the other side is no key-value store of Heddle");
  if (hello_[4] != kHelloVersion)
    throw CommError("the other side speaks version " + std::to_string(std::to_integer<int>(hello_[4])) +
                    " of the protocol, this one version 1");
  return hello_[5] == std::byte{1};
}

}  // namespace heddle::net_detail
