#include "connection/connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <utility>

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

namespace heddle::net_detail {
namespace {

// Up to this many bytes, copying head and body into one buffer is cheaper than passing both to the kernel.
constexpr std::size_t kSmall = 2048;

Step step_of(ssize_t result) {
  if (result > 0) return {Step::Outcome::moved, static_cast<std::size_t>(result)};
  if (result < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOTCONN)) return {};
  return {Step::Outcome::closed, 0};
}

// A msghdr for a head and a body. An empty one of the two is left out.
struct Parts {
  Parts(std::span<const std::byte> head, std::span<const std::byte> body) {
    add(head);
    add(body);
    message.msg_iov = parts.data();
  }
  void add(std::span<const std::byte> part) {
    if (!part.empty()) parts[message.msg_iovlen++] = {const_cast<std::byte*>(part.data()), part.size()};
  }
  std::array<iovec, 2> parts{};
  msghdr message{};
};

class PlainConnection final : public Connection {
 public:
  explicit PlainConnection(Socket socket) : socket_(std::move(socket)) {}

  Step send(std::span<const std::byte> head, std::span<const std::byte> body) override {
    if (const std::size_t bytes = head.size() + body.size(); bytes <= kSmall) {
      std::array<std::byte, kSmall> whole;
      std::copy(body.begin(), body.end(), std::copy(head.begin(), head.end(), whole.begin()));
      return step_of(::send(socket_.fd(), whole.data(), bytes, MSG_NOSIGNAL | MSG_DONTWAIT));
    }
    Parts both(head, body);
    return step_of(sendmsg(socket_.fd(), &both.message, MSG_NOSIGNAL | MSG_DONTWAIT));
  }
  Step receive(std::span<std::byte> head, std::span<std::byte> body) override {
    if (const std::size_t bytes = head.size() + body.size(); bytes <= kSmall) {
      std::array<std::byte, kSmall> whole;
      const Step step = step_of(recv(socket_.fd(), whole.data(), bytes, MSG_DONTWAIT));
      const std::size_t in_head = std::min(step.bytes, head.size());
      std::copy_n(whole.begin(), in_head, head.begin());
      std::copy_n(whole.begin() + in_head, step.bytes - in_head, body.begin());
      return step;
    }
    Parts both(head, body);
    return step_of(recvmsg(socket_.fd(), &both.message, MSG_DONTWAIT));
  }
  std::optional<pollfd> before_sleep(bool to_send, bool to_receive) override {
    const int events = (to_send ? POLLOUT : 0) | (to_receive ? POLLIN : 0);
    return pollfd{socket_.fd(), static_cast<short>(events), 0};
  }
  const Socket& socket() const override { return socket_; }
  void finish_sending() override { shutdown(socket_.fd(), SHUT_WR); }
  bool all_delivered() override { return all_acknowledged(socket_); }

 private:
  const Socket socket_;
};

}  // namespace

std::unique_ptr<Connection> plain_connection(Socket socket) {
  return std::make_unique<PlainConnection>(std::move(socket));
}

bool all_acknowledged(const Socket& socket) {
  // Everything is read first: closing a socket with unread data resets it, and unacknowledged data would be lost.
  std::array<std::byte, 16384> unread;
  ssize_t got = 0;
  do got = recv(socket.fd(), unread.data(), unread.size(), MSG_DONTWAIT);
  while (got > 0);
  if (got < 0 && errno != EAGAIN && errno != EINTR) return true;
  // A reset is reported once, perhaps to an earlier send; after that SIOCOUTQ counts the lost data for ever.
  tcp_info info{};
  socklen_t length = sizeof info;
  if (getsockopt(socket.fd(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || info.tcpi_state == TCP_CLOSE)
    return true;
  int waiting = 0;
  return ioctl(socket.fd(), SIOCOUTQ, &waiting) != 0 || waiting == 0;
}

}  // namespace heddle::net_detail
