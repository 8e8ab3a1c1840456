// A rank of comm_bench that does an all_reduce of two ranks with a bare TCP socket: what the kernel needs to
// carry the bytes, plus a loop that adds. The two ranks exchange halves of the array, add them and exchange
// the sums; one thread sends and receives at the same time.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "comm/comm_rank.h"

namespace {

using namespace heddle::bench;

// Most bytes per send or recv call: small enough that a piece is still in a cache when the peer copies it.
constexpr std::size_t kPiece = 256 << 10;

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

int new_socket() {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0) fail("socket");
  // Selects the congestion control reno, as Heddle does on loopback: the system's default may slow down,
  // although loopback loses no packets.
  setsockopt(made, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
  return made;
}

void send_at_once(int connection) {
  const int on = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// Rank 0 publishes its port in a file, renamed into place so that it is complete when it appears.
int listen_and_accept(const std::string& meeting) {
  const int listener = new_socket();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    fail("listen");
  std::ofstream(meeting + ".new") << ntohs(address.sin_port);
  if (std::rename((meeting + ".new").c_str(), meeting.c_str()) != 0) fail("rename");
  const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (connection < 0) fail("accept");
  close(listener);
  return connection;
}

int find_and_connect(const std::string& meeting) {
  std::uint16_t port = 0;
  while (!(std::ifstream(meeting) >> port)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int connection = new_socket();
  if (connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("connect");
  return connection;
}

class Sockets : public CommLibrary {
 public:
  explicit Sockets(const RankArguments& arguments) : rank_(arguments.rank) {
    if (arguments.size != 2) throw std::runtime_error("sockets are for two ranks");
    connection_ = rank_ == 0 ? listen_and_accept(arguments.meeting) : find_and_connect(arguments.meeting);
    send_at_once(connection_);
  }
  ~Sockets() override { close(connection_); }

  int rank() const override { return rank_; }
  int size() const override { return 2; }

  void barrier() override {
    std::byte out{}, in{};
    exchange(&out, 1, &in, 1);
  }

  CommJob prepare(const CommTask& task) override {
    if (task.collective != "all_reduce") throw std::runtime_error("sockets have all_reduce only");
    auto memory = std::make_shared<CommBuffers>(task, 2);
    auto theirs = std::make_shared<std::vector<float>>((task.count + 1) / 2);
    float* data = memory->out();
    return {data, data,
            [this, memory, theirs, data, count = task.count] { all_reduce(data, theirs->data(), count); }};
  }

 private:
  void all_reduce(float* data, float* theirs, std::size_t count) {
    const std::size_t half = count / 2, rest = count - half;
    float* const mine = rank_ == 0 ? data : data + half;
    float* const other = rank_ == 0 ? data + half : data;
    const std::size_t own = rank_ == 0 ? half : rest, given = count - own;
    exchange(other, given * sizeof(float), theirs, own * sizeof(float));
    for (std::size_t i = 0; i < own; ++i) mine[i] += theirs[i];
    exchange(mine, own * sizeof(float), other, given * sizeof(float));
  }

  void exchange(const void* from, std::size_t out, void* to, std::size_t in) {
    const auto* send_from = static_cast<const std::byte*>(from);
    auto* receive_to = static_cast<std::byte*>(to);
    while (out > 0 || in > 0) {
      const ssize_t sent =
          out > 0 ? send(connection_, send_from, std::min(out, kPiece), MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
      if (sent < 0 && errno != EAGAIN) fail("send");
      const ssize_t received = in > 0 ? recv(connection_, receive_to, std::min(in, kPiece), MSG_DONTWAIT) : 0;
      if (received < 0 && errno != EAGAIN) fail("recv");
      if (received == 0 && in > 0) throw std::runtime_error("the other rank is gone");
      if (sent > 0) send_from += sent, out -= static_cast<std::size_t>(sent);
      if (received > 0) receive_to += received, in -= static_cast<std::size_t>(received);
      if (sent > 0 || received > 0) continue;
      pollfd waits{connection_, static_cast<short>((out > 0 ? POLLOUT : 0) | (in > 0 ? POLLIN : 0)), 0};
      poll(&waits, 1, -1);
    }
  }

  const int rank_;
  int connection_ = -1;
};

}  // namespace

int main(int argc, char** argv) {
  return run_rank(argc, argv, [](const RankArguments& arguments) {
    Sockets library(arguments);
    serve(library, arguments);
  });
}
