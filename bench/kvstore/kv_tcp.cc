// The simplest server and user: each has one blocking loopback socket. A frame is a head and a value.
#include <array>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "kvstore/kv_server.h"
#include "kvstore/kv_user.h"

namespace heddle::bench {
namespace {

constexpr std::size_t kBuffer = 128 << 10;
constexpr std::uint64_t kMostKeys = 1 << 20, kMostBytes = 1 << 30;

struct Head {
  std::uint32_t pull = 0, key = 0;
  std::uint64_t bytes = 0;
  std::uint64_t filler[6]{};
};
static_assert(sizeof(Head) == 64);

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

sockaddr_in address_of(const std::string& text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (!text.empty())
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(text.substr(text.rfind(':') + 1))));
  return address;
}

// Buffers small frames in both directions; a large value is received directly into its destination.
class Stream {
 public:
  explicit Stream(int fd) : fd_(fd), in_(kBuffer) {
    const int yes = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  }
  ~Stream() { close(fd_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  bool has_read_ahead() const { return begin_ < end_; }

  // Reads exactly `bytes`; false at the end of the stream.
  bool read(void* to, std::size_t bytes) {
    auto* place = static_cast<std::byte*>(to);
    while (bytes > 0) {
      if (begin_ == end_ && bytes < kBuffer) {
        begin_ = 0;
        end_ = receive(in_.data(), in_.size());
        if (end_ == 0) return false;
      }
      const std::size_t buffered = std::min(bytes, end_ - begin_);
      std::memcpy(place, in_.data() + begin_, buffered);
      begin_ += buffered;
      const std::size_t direct = buffered == 0 ? receive(place, bytes) : 0;
      if (buffered == 0 && direct == 0) return false;
      place += buffered + direct;
      bytes -= buffered + direct;
    }
    return true;
  }

  void write(const Head& head, std::span<const std::byte> value) {
    const auto* begin = reinterpret_cast<const std::byte*>(&head);
    out_.insert(out_.end(), begin, begin + sizeof head);
    if (out_.size() + value.size() <= kBuffer)
      return void(out_.insert(out_.end(), value.begin(), value.end()));
    send(value);
  }

  void flush() {
    if (!out_.empty()) send({});
  }

 private:
  void send(std::span<const std::byte> value) {
    std::array<iovec, 2> parts{iovec{out_.data(), out_.size()},
                               iovec{const_cast<std::byte*>(value.data()), value.size()}};
    std::size_t first = 0;
    while (first < parts.size()) {
      const ssize_t sent = writev(fd_, parts.data() + first, static_cast<int>(parts.size() - first));
      if (sent < 0) fail("send");
      auto left = static_cast<std::size_t>(sent);
      while (first < parts.size() && left >= parts[first].iov_len) left -= parts[first++].iov_len;
      if (first == parts.size()) break;
      parts[first].iov_base = static_cast<std::byte*>(parts[first].iov_base) + left;
      parts[first].iov_len -= left;
    }
    out_.clear();
  }

  std::size_t receive(std::byte* to, std::size_t most) {
    const ssize_t got = recv(fd_, to, most, 0);
    if (got < 0) fail("recv");
    return static_cast<std::size_t>(got);
  }

  const int fd_;
  std::vector<std::byte> in_, out_;
  std::size_t begin_ = 0, end_ = 0;  // the range of the buffer in_ that is received but not read yet
};

class TcpUser final : public StoreUser {
 public:
  explicit TcpUser(const UserOptions& options) : stream_(connected(options.address)) {}

  void make(std::size_t keys, std::size_t bytes) override {
    memory_.resize(keys, bytes);
    push();
  }
  std::span<std::byte> value(std::size_t key) override { return memory_.value(key); }
  std::span<std::byte> result(std::size_t key) override { return memory_.result(key); }

  void push() override {
    for (std::size_t key = 0; key < memory_.keys(); ++key) stream_.write(head(0, key), memory_.value(key));
    stream_.flush();
    for (std::size_t key = 0; key < memory_.keys(); ++key) read_answer({});
  }

  void pull() override {
    for (std::size_t key = 0; key < memory_.keys(); ++key) stream_.write(head(1, key), {});
    stream_.flush();
    for (std::size_t key = 0; key < memory_.keys(); ++key) read_answer(memory_.result(key));
  }

  void push_pull() override {
    push();
    pull();
  }

 private:
  static int connected(const std::string& text) {
    const sockaddr_in address = address_of(text);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail("connect");
    return fd;
  }

  Head head(std::uint32_t pull, std::size_t key) const {
    return {.pull = pull, .key = static_cast<std::uint32_t>(key), .bytes = pull ? 0 : memory_.bytes()};
  }

  void read_answer(std::span<std::byte> value) {
    Head answer;
    if (!stream_.read(&answer, sizeof answer) || answer.bytes != value.size() ||
        !stream_.read(value.data(), value.size()))
      throw std::runtime_error("the echo has answered something else, or is gone");
  }

  UserMemory memory_;
  Stream stream_;
};

// Serves one connection; keeps the last value of each key.
void echo_all(Stream& stream) {
  std::vector<std::vector<std::byte>> values;
  for (Head head; stream.read(&head, sizeof head);) {
    if (head.key >= kMostKeys || head.bytes > kMostBytes) throw std::runtime_error("a head that cannot be");
    if (head.key >= values.size()) values.resize(head.key + 1);
    std::vector<std::byte>& value = values[head.key];
    if (head.pull) {
      stream.write({.pull = 1, .key = head.key, .bytes = value.size()}, value);
    } else {
      value.resize(head.bytes);
      if (!stream.read(value.data(), value.size())) return;
      stream.write({.key = head.key}, {});
    }
    if (!stream.has_read_ahead()) stream.flush();
  }
}

}  // namespace

std::unique_ptr<StoreUser> make_tcp_user(const UserOptions& options) {
  return std::make_unique<TcpUser>(options);
}

int run_tcp_echo() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = address_of({});
  socklen_t length = sizeof address;
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    fail("listen");
  say_address(getpid(), "127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
  // Waits for the user's connection or for the end of stdin: if no case needs the user, it never connects.
  std::array<pollfd, 2> wanted{{{listener, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}}};
  while (poll(wanted.data(), wanted.size(), -1) < 0 && errno == EINTR) continue;
  if (wanted[0].revents == 0) return 0;
  Stream stream(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  echo_all(stream);
  return 0;
}

}  // namespace heddle::bench
