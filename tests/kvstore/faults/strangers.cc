// Unauthenticated connections beside a working worker: the server refuses them, and does not grow.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>
#include <poll.h>
#include <random>
#include <stdexcept>
#include <sys/socket.h>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <heddle/engine.h>
#include <heddle/ops.h>

#include "arguments.h"
#include "client/dist_store.h"
#include "connection/socket.h"
#include "faults/programs.h"
#include "faults/server_process.h"
#include "transport/address.h"
#include "transport/frame.h"

namespace heddle::test {
namespace {

using kv_detail::Address;
using net_detail::Socket;
using namespace std::chrono_literals;

// Number of unauthenticated connections open at once, not counting the kSlow slow ones.
constexpr std::size_t kOpen = 300;
constexpr std::size_t kSlow = 100;
// How many descriptors and bytes the server may have more at the end than after the first fifth of the
// connections.
constexpr std::size_t kMostDescriptors = 20, kMostGrowth = 8 << 20;
// The most memory that the server uses for a connection during its handshake, in bytes.
constexpr std::size_t kOfHandshake = 192 << 10;

// Connects to `to`. The socket closes by a reset: otherwise the many refused connections would use up the
// ports (TIME_WAIT).
Socket connect_from(const Address& to, std::uint32_t number) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const linger reset{1, 0};
  setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  sockaddr_in from{}, target{};
  from.sin_family = target.sin_family = AF_INET;
  from.sin_addr.s_addr = htonl(0x7f000002u + number % 200);
  target.sin_port = htons(to.port);
  inet_pton(AF_INET, to.host.c_str(), &target.sin_addr);
  if (bind(socket.fd(), reinterpret_cast<const sockaddr*>(&from), sizeof from) != 0) return {};
  const int done = ::connect(socket.fd(), reinterpret_cast<const sockaddr*>(&target), sizeof target);
  if (done != 0 && errno != EINPROGRESS) return {};
  return socket;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string frame_of(const std::string& head, std::uint64_t announced) {
  kv_detail::Preamble preamble = kv_detail::preamble_of(std::as_bytes(std::span(head)), {});
  preamble.payload_bytes = announced;
  return text_of(encode(preamble)) + head;
}

// The hello of a client on this host that uses no shared memory.
std::string local_hello() {
  std::string hello("HDKH\1", 5);
  hello.resize(12);
  const std::uint32_t sum = kv_detail::checksum(std::as_bytes(std::span(hello)));
  for (int i = 0; i < 4; ++i) hello += static_cast<char>(sum >> 8 * i);
  return hello;
}

std::string noise(std::mt19937_64& random, std::size_t most) {
  std::string bytes(1 + random() % most, '\0');
  for (char& one : bytes) one = static_cast<char>(random());
  return bytes;
}

// What an unauthenticated peer sends: nothing, noise, the beginning of TLS or of ZeroMQ's handshake, a
// message with an oversize length, or, after a valid hello of a process of the same user, messages that no
// worker sends.
std::string words(std::mt19937_64& random, bool local) {
  const std::string tls("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  const std::string zmq(
      "\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01"
      "CURVE",
      17);
  const std::string begun = local ? local_hello() : "";
  switch (random() % 7) {
    case 0:
      return "";
    case 1:
      return noise(random, 200);
    case 2:
      return tls + noise(random, 40);
    case 3:
      return zmq + noise(random, 60);
    case 4:
      return begun + frame_of("head", std::uint64_t{1} << random() % 63);
    case 5:
      return begun + frame_of(noise(random, 100), 0);
    default:
      return local_hello().substr(0, random() % 16) + noise(random, 20);
  }
}

// Opens unauthenticated connections, of which the newest kOpen stay open.
class UnauthenticatedPeers {
 public:
  UnauthenticatedPeers(const std::string& address, const FaultSettings& settings, bool local)
      : address_(kv_detail::parse_address(address)),
        settings_(settings),
        local_(local),
        random_(settings.seed) {}

  void send_one(std::uint32_t number) {
    const bool unix_socket = local_ && number % 2 == 0;
    Socket socket = unix_socket
                        ? kv_detail::connect_locally(kv_detail::local_name(settings_.transport, address_))
                        : connect_from(address_, number);
    if (!socket) {
      // The server's backlog is full. Gives the server time to accept connections.
      std::this_thread::sleep_for(1ms);
      ++refused_;
      return;
    }
    pollfd ready{socket.fd(), POLLOUT, 0};
    if (!unix_socket) ::poll(&ready, 1, 1000);
    const std::string text = words(random_, unix_socket);
    if (number % 50 == 0 && slow_.size() < kSlow) {
      slow_.emplace_back(std::move(socket), text);
      return;
    }
    if (!text.empty()) [[maybe_unused]]
      const auto sent = ::send(socket.fd(), text.data(), text.size(), MSG_NOSIGNAL);
    open_.push_back(std::move(socket));
    if (open_.size() > kOpen) open_.pop_front();
  }

  // Sends a byte on each slow connection. The test calls this once a second.
  void feed_slow() {
    for (auto& [socket, text] : slow_) {
      const char next = text.empty() ? '\x16' : text.front();
      if (!text.empty()) text.erase(0, 1);
      [[maybe_unused]] const auto sent = ::send(socket.fd(), &next, 1, MSG_NOSIGNAL);
    }
    if (slow_.size() > kSlow / 2) slow_.erase(slow_.begin(), slow_.begin() + kSlow / 10);
  }
  std::uint64_t refused() const { return refused_; }

 private:
  const Address address_;
  const FaultSettings& settings_;
  const bool local_;
  std::mt19937_64 random_;
  std::deque<Socket> open_;
  std::deque<std::pair<Socket, std::string>> slow_;
  std::uint64_t refused_ = 0;
};

// The program of the accepted worker: pushes until `over`, and returns the number of its pushes.
std::uint64_t work(const std::string& address, const kv_detail::TransportOptions& transport,
                   const std::atomic<bool>& over) {
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  DistStore store("dist_async", {.servers = {address}, .consistency = "async", .transport = transport});
  store.set_optimizer("add");
  NDArray out = zeros({100}, DType::i64);
  store.init(0, out);
  std::uint64_t pushes = 0;
  while (!over.load()) {
    store.push(0, ones({100}, DType::i64));
    store.pull(0, out);
    if (static_cast<std::uint64_t>(out.to_vector<std::int64_t>()[99]) != ++pushes)
      throw std::runtime_error("the worker's sum is wrong");
  }
  return pushes;
}

// The server's memory and descriptors: the values after the first fifth of the connections, the last value of
// memory, and the maximum of descriptors.
struct Watch {
  std::uint64_t first = 0, last = 0;
  std::size_t first_descriptors = 0, most_descriptors = 0;
  void look(const ServerProcess& server, bool warm) {
    last = server.resident_bytes();
    const std::size_t descriptors = server.descriptors();
    if (!warm || first == 0) first = last, first_descriptors = descriptors, most_descriptors = descriptors;
    most_descriptors = std::max(most_descriptors, descriptors);
  }
};

int run_beside_worker(const FaultSettings& settings, long long count, bool local) {
  const KeyDirectory keys;
  ServerProcess server({.transport = settings.transport, .keys = keys.path, .encrypt_loopback = !local});
  kv_detail::TransportOptions transport{
      .kind = settings.transport, .keys = keys.path, .encrypt_loopback = !local};
  std::atomic<bool> over{false};
  std::uint64_t pushes = 0;
  std::exception_ptr error;
  std::thread worker([&] {
    try {
      pushes = work(server.address(), transport, over);
    } catch (...) {
      error = std::current_exception();
    }
  });
  Watch watch;
  UnauthenticatedPeers strangers(server.address(), settings, local);
  auto next_feed = std::chrono::steady_clock::now();
  for (long long i = 0; i < count; ++i) {
    strangers.send_one(static_cast<std::uint32_t>(i));
    if (i % 100 == 0 && std::chrono::steady_clock::now() >= next_feed) {
      strangers.feed_slow();
      next_feed += 1s;
      if (count >= 100'000) std::printf("\r%lld of %lld", i, count), std::fflush(stdout);
    }
    if (i % std::max<long long>(1, count / 50) == 0) watch.look(server, i >= count / 5);
  }
  over.store(true);
  worker.join();
  watch.look(server, true);
  const ServerCounts counts = server.stop();
  std::printf(
      "\r%s, %s: %lld connections of strangers (%llu found the backlog full); workers that joined: %llu, "
      "pushes: %llu; "
      "memory %.1f MB, then %.1f MB; descriptors %zu, %zu at most\n",
      settings.transport.c_str(), local ? "this user's" : "encrypted", count,
      static_cast<unsigned long long>(strangers.refused()), static_cast<unsigned long long>(counts.joined),
      static_cast<unsigned long long>(counts.pushes), static_cast<double>(watch.first) / 1e6,
      static_cast<double>(watch.last) / 1e6, watch.first_descriptors, watch.most_descriptors);
  if (error) std::rethrow_exception(error);
  // If the server later had more descriptors at once than after the first fifth, it also needed more memory,
  // which the allocator does not return.
  const std::size_t more = kOfHandshake * (watch.most_descriptors - watch.first_descriptors);
  const bool good = counts.joined == 1 && counts.pushes == pushes &&
                    (watch.last <= watch.first + kMostGrowth + more || kSanitized) &&
                    watch.most_descriptors <= watch.first_descriptors + kOpen + kSlow + kMostDescriptors;
  if (!good) std::fprintf(stderr, "a stranger was let in, or the server has grown\n");
  return good ? 0 : 1;
}

}  // namespace

int run_strangers(const FaultSettings& settings) {
  const long long count = settings.count > 0 ? settings.count : 1'000'000;
  int failed = 0;
  for (const bool local : {false, true}) failed += run_beside_worker(settings, count / 2, local);
  return failed;
}

}  // namespace heddle::test
