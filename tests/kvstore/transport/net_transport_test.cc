// Properties of the transport "net": keys, listeners, shared memory.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/comm_error.h>
#include <heddle/comm_keys.h>

#include "connection/interfaces.h"
#include "connection/socket.h"
#include "files.h"
#include "membership/refusal_log.h"
#include "message_of.h"
#include "transport/address.h"
#include "transport/frame.h"
#include "transport/transport_rig.h"

using namespace heddle;
using namespace heddle::net_detail;
using heddle::kv_detail::RefusalLog;
using namespace heddle::test;
using namespace std::chrono_literals;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A directory with a key that accepts itself.
struct OwnKeys {
  TemporaryDirectory directory;
  CommKey key = make_comm_key(directory.path, false);
  std::string fingerprint() const { return key.line.substr(0, key.line.find(' ')); }
  TransportOptions options() const { return {.keys = directory.path, .encrypt_loopback = true}; }
  void allow(const OwnKeys& other) const {
    write_file(key.allowed_file, read_file(key.allowed_file) + other.key.line + "\n");
  }
};

// Connects a client that the server refuses. Returns the reason that the client gets.
std::string refusal(const TransportOptions& of_server, const TransportOptions& of_client) {
  End server(of_server), client(of_client);
  client->connect(server->listen("127.0.0.1:0"));
  pump({&server, &client}, [&] { return client.recorder.count(Seen::What::disconnected) == 1; });
  for (int i = 0; i < 10; ++i) server->poll(1ms);
  CHECK(client.recorder.seen.size() == 1);
  CHECK(server.recorder.seen.empty());
  return client.recorder.seen.front().text;
}

int mapped_memories() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += holds(line, "memfd:heddle");
  return count;
}

// Sends the hello of a client on this host. `fd` is the client's shared memory; -1: it has none.
void say_hello(const net_detail::Socket& socket, int fd = -1) {
  std::string hello("HDKH\1", 5);
  hello += fd < 0 ? '\0' : '\1';
  hello.resize(12);
  const std::uint32_t sum = checksum(std::as_bytes(std::span(hello)));
  for (int i = 0; i < 4; ++i) hello += static_cast<char>(sum >> 8 * i);
  iovec part{hello.data(), hello.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fd)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  CHECK(sendmsg(socket.fd(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(hello.size()));
}

net_detail::Socket local_connection(const std::string& address) {
  auto socket = connect_locally(local_name("net", parse_address(address)));
  REQUIRE(socket);
  return socket;
}

// Uses up the file descriptors of this process until the destruction.
class NoDescriptors {
 public:
  NoDescriptors() {
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const rlimit few{.rlim_cur = std::min<rlim_t>(before_.rlim_cur, 256), .rlim_max = before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
    for (int fd = 0; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) all_.emplace_back(fd);
  }
  ~NoDescriptors() { CHECK(setrlimit(RLIMIT_NOFILE, &before_) == 0); }
  void free_one() { all_.pop_back(); }

 private:
  rlimit before_{};
  std::vector<net_detail::Socket> all_;
};

std::string frame(const std::string& head, const std::string& payload) {
  const auto wire = encode(preamble_of(bytes_from(head), bytes_from(payload)));
  return text_from(wire) + head + payload;
}

std::string with_a_flipped_bit(std::string text, std::size_t place) {
  text[place] = static_cast<char>(text[place] ^ 4);
  return text;
}

}  // namespace

TEST_CASE("connected() says which key the other side has, and none where the user counts") {
  const OwnKeys server_keys, client_keys;
  server_keys.allow(client_keys);
  client_keys.allow(server_keys);
  Pair encrypted(server_keys.options(), client_keys.options());
  CHECK(encrypted.server.recorder.connected().front().text == client_keys.fingerprint());
  CHECK(encrypted.client.recorder.connected().front().text == server_keys.fingerprint());
  Pair local(TransportOptions{});
  CHECK(local.server.recorder.connected().front().text.empty());
  CHECK(local.client.recorder.connected().front().text.empty());
}

TEST_CASE("a key that is not on the list is refused by either side") {
  const OwnKeys server_keys, client_keys;
  CHECK(holds(refusal(server_keys.options(), client_keys.options()),
              "it shows the key " + server_keys.fingerprint()));
  client_keys.allow(server_keys);
  CHECK(
      holds(refusal(server_keys.options(), client_keys.options()), "it does not accept this process's key"));
}

TEST_CASE("keys are rotated without a restart: who is taken off the list is put out, who is added comes in") {
  const OwnKeys server_keys, client_keys;
  server_keys.allow(client_keys);
  client_keys.allow(server_keys);
  const std::string both = read_file(server_keys.key.allowed_file);
  Pair pair(server_keys.options(), client_keys.options());
  write_file(server_keys.key.allowed_file, "a line that is wrong\n");  // the server ignores an invalid file
  // By then the server has read its keys again.
  const auto looked = std::chrono::steady_clock::now() + 1200ms;
  pair.pump_until([&] { return std::chrono::steady_clock::now() > looked; });
  CHECK(pair.server.recorder.count(Seen::What::disconnected) == 0);
  write_file(server_keys.key.allowed_file, server_keys.key.line + "\n");
  pair.pump_until([&] { return pair.client.recorder.count(Seen::What::disconnected) == 1; });
  CHECK(holds(pair.server.recorder.disconnected().front().text,
              "its key " + client_keys.fingerprint() + " is no longer in comm.allowed"));
  pair.client->connect(pair.address);
  pair.pump_until([&] { return pair.client.recorder.count(Seen::What::disconnected) == 2; });
  CHECK(holds(pair.client.recorder.disconnected().back().text, "it does not accept this process's key"));
  write_file(server_keys.key.allowed_file, both);
  std::size_t tries = 2;
  pair.pump_until([&] {  // connects again and again until the server has read its keys
    if (pair.client.recorder.count(Seen::What::connected) == 2) return true;
    if (pair.client.recorder.count(Seen::What::disconnected) == tries)
      pair.client->connect(pair.address), ++tries;
    return false;
  });
  CHECK(pair.server.recorder.connected().back().text == client_keys.fingerprint());
}

TEST_CASE("who encrypts and who does not are told that they do not fit") {
  const OwnKeys keys;
  CHECK(holds(refusal(keys.options(), {}), "it encrypts (and this side is to, too: encrypt_loopback)"));
  CHECK(holds(refusal({}, keys.options()), "it does not encrypt"));
}

TEST_CASE("without a key nothing is encrypted, and nothing is offered to other hosts") {
  const TemporaryDirectory empty;
  const TransportOptions options{.keys = empty.path};
  TransportOptions encrypting = options;
  encrypting.encrypt_loopback = true;
  CHECK(holds(message_of<CommError>([&] { End end(encrypting); }), "heddle keygen"));
  std::string address;
  try {
    address = net_detail::choose_address("", false);
  } catch (const CommError&) {
    return;  // the host has only loopback
  }
  End end(options);
  CHECK(holds(message_of<CommError>([&] { end->listen(Address{address, 0}.text()); }), "heddle keygen"));
  end->connect(Address{address, 9}.text());
  pump({&end}, [&] { return end.recorder.count(Seen::What::disconnected) == 1; });
  CHECK(holds(end.recorder.seen.front().text, "heddle keygen"));
}

TEST_CASE(
    "at an address of the network, processes of this host meet at the unix socket, and others use TLS") {
  std::string host;
  try {
    host = net_detail::choose_address("", false);
  } catch (const CommError&) {
    return;  // the host has only loopback
  }
  const OwnKeys keys;
  TransportOptions options = keys.options();
  End encrypting(options);
  options.encrypt_loopback = false;
  End server(options), local(options);
  const std::string address = server->listen(Address{host, 0}.text());
  local->connect(address);
  encrypting->connect(address);
  pump({&server, &local, &encrypting}, [&] { return server.recorder.count(Seen::What::connected) == 2; });
  std::vector<std::string> shown;
  for (const Seen& one : server.recorder.connected()) shown.push_back(one.text);
  CHECK(std::count(shown.begin(), shown.end(), "") == 1);
  CHECK(std::count(shown.begin(), shown.end(), keys.fingerprint()) == 1);
}

TEST_CASE("processes of one host share memory if both want to") {
  const int before = mapped_memories();
  for (const bool server : {true, false}) {
    for (const bool client : {true, false}) {
      CAPTURE(server);
      CAPTURE(client);
      Pair pair({.shared_memory = server}, {.shared_memory = client});
      CHECK(mapped_memories() - before == (server && client ? 2 : 0));
      pair.client->send(pair.at_client, message_from("up", pattern(300'000, 1)));
      pair.server->send(pair.at_server, message_from("down", pattern(300'000, 2)));
      pair.pump_until([&] {
        return pair.client.recorder.count(Seen::What::received) +
                   pair.server.recorder.count(Seen::What::received) ==
               2;
      });
      CHECK((pair.server.recorder.received().front().payload == pattern(300'000, 1)));
      CHECK((pair.client.recorder.received().front().payload == pattern(300'000, 2)));
    }
  }
  CHECK(mapped_memories() == before);
}

TEST_CASE("memory that could be cut short, or has another size, is not shared") {
  Pair pair(TransportOptions{});
  const net_detail::Socket unsealed(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(ftruncate(unsealed.fd(), 1 << 20) == 0);
  const net_detail::Socket small(memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(ftruncate(small.fd(), 4096) == 0);
  REQUIRE(fcntl(small.fd(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  const net_detail::Socket no_memory(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const net_detail::Socket* file : {&unsealed, &small, &no_memory}) {
    const auto socket = local_connection(pair.address);
    say_hello(socket, file->fd());
    char unread = 0;
    pair.pump_until([&] { return recv(socket.fd(), &unread, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET; });
  }
  CHECK(pair.server.recorder.count(Seen::What::connected) == 1);
}

TEST_CASE("a broken message of a peer that has been let in ends its connection alone") {
  const std::string good = frame("head", "payload");
  const std::pair<std::string, std::string> broken[] = {
      {pattern(1000, 3), "it does not begin as one"},
      {with_a_flipped_bit(good, 9), "the checksum of its preamble is wrong"},
      {with_a_flipped_bit(good, kPreambleBytes), "the checksum of its head is wrong"},
      {with_a_flipped_bit(good, kPreambleBytes + 5), "the checksum of its payload is wrong"},
      {good.substr(0, 20), "the other side has closed the connection"},
      {good.substr(0, kPreambleBytes + 2), "the other side has closed the connection"},
      {good.substr(0, kPreambleBytes + 6), "the other side has closed the connection"},
      {text_from(encode({.head_bytes = 70'000})), "70000 bytes; 65536 are allowed"},
      {text_from(encode({.payload_bytes = 1ull << 40})), "1099511627776 bytes; 4194304 are allowed"},
  };
  Pair pair(TransportOptions{});
  std::size_t messages = 0;
  for (const auto& [bytes, why] : broken) {
    CAPTURE(why);
    const std::size_t before = pair.server.recorder.count(Seen::What::disconnected);
    auto socket = local_connection(pair.address);
    say_hello(socket);
    const std::string all = good + bytes;
    CHECK(send(socket.fd(), all.data(), all.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(all.size()));
    shutdown(socket.fd(), SHUT_WR);
    pair.pump_until([&] { return pair.server.recorder.count(Seen::What::disconnected) > before; });
    CHECK(holds(pair.server.recorder.disconnected().back().text, why));
    // The server has received the valid message that was sent before the malformed bytes.
    CHECK(pair.server.recorder.count(Seen::What::received) == ++messages);
    pair.client->send(pair.at_client, message_from("still here"));
    ++messages;
    pair.pump_until([&] { return pair.server.recorder.count(Seen::What::received) == messages; });
    CHECK(pair.server.recorder.received().back().text == "still here");
  }
}

TEST_CASE("a process of this host that goes while it is let in was not refused") {
  End server(TransportOptions{});
  const std::string address = server->listen("127.0.0.1:0");
  {
    const auto socket = local_connection(address);
    say_hello(socket);
  }
  for (int i = 0; i < 50; ++i) server->poll(1ms);
  CHECK(server->refused_connections().refused == 0);
  { const auto socket = local_connection(address); }
  for (int i = 0; i < 50; ++i) server->poll(1ms);
  const RefusedConnections& refused_connections = server->refused_connections();
  // A client that closes before it has sent anything counts as refused.
  CHECK(refused_connections.refused == 1);
  CHECK(holds(refused_connections.last, "the other side has closed the connection"));
}

TEST_CASE("messages that come byte by byte, and in pieces") {
  End server(TransportOptions{.shared_memory = false});
  const auto socket = local_connection(server->listen("127.0.0.1:0"));
  say_hello(socket);
  const std::string all = frame("one", "") + frame("", pattern(50, 1)) + frame("three", pattern(40'000, 2));
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t bytes = at < 300 ? 1 : std::min<std::size_t>(1000, all.size() - at);
    REQUIRE(send(socket.fd(), all.data() + at, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes));
    at += bytes;
    server->poll(0us);
  }
  pump({&server}, [&] { return server.recorder.count(Seen::What::received) == 3; });
  const auto received = server.recorder.received();
  CHECK(received[0].text == "one");
  CHECK((received[1].payload == pattern(50, 1)));
  CHECK(received[2].text == "three");
  CHECK((received[2].payload == pattern(40'000, 2)));
}

TEST_CASE("silent connections do not take the place of authenticated ones") {
  const TransportOptions options{.max_connections = 3, .handshake_timeout = 1h};
  Pair pair(options);
  std::vector<net_detail::Socket> silent;
  for (int i = 0; i < 10; ++i) silent.push_back(local_connection(pair.address));
  End another(options);
  another->connect(pair.address);
  pump({&pair.server, &another}, [&] { return another.recorder.count(Seen::What::connected) == 1; });
  CHECK(pair.server.recorder.count(Seen::What::disconnected) == 0);
}

TEST_CASE("net: without descriptors new connections are refused, said once, and let in when there are some") {
  for (const bool shared_memory : {true, false}) {
    CAPTURE(shared_memory);
    Pair pair({.shared_memory = shared_memory});
    RefusalLog log;
    auto now = std::chrono::steady_clock::now();
    {
      NoDescriptors none;
      for (std::uint64_t refused = 1; refused <= 3; ++refused) {
        // Leaves one descriptor for accepting the connection that will be refused.
        if (refused == 1) none.free_one();
        const auto stranger = local_connection(pair.address);
        pair.pump_until([&] { return pair.server->refused_connections().refused == refused; });
        const auto event = log.look(*pair.server.transport, now += 1s);
        REQUIRE(event.has_value() == (refused == 1));
        if (event) CHECK(holds(event->fields.at(1).second, "there are no descriptors left"));
        const std::size_t before = pair.server.recorder.count(Seen::What::received);
        pair.client->send(pair.at_client, message_from("still here"));
        pair.pump_until([&] { return pair.server.recorder.count(Seen::What::received) > before; });
      }
    }
    CHECK(log.look(*pair.server.transport, now + 61s)->fields.at(0).second == "2");
    End late({.shared_memory = shared_memory});
    late->connect(pair.address);
    pump({&pair.server, &late}, [&] { return late.recorder.count(Seen::What::connected) == 1; });
    CHECK(pair.server.recorder.count(Seen::What::disconnected) == 0);
  }
}

TEST_CASE("an unknown kind of transport is refused") {
  Recorder recorder;
  CHECK(message_of([&] { make_transport({.kind = "pigeon"}, recorder); }) ==
        "transport: got 'pigeon', want net or zmq");
}

TEST_CASE("net: messages that are a lot of work do not keep a poll beyond their turn") {
  for (const bool shared_memory : {true, false}) {
    CAPTURE(shared_memory);
    Pair pair({.shared_memory = shared_memory});
    std::size_t count = 0;
    pair.server.recorder.on_received = [&](Peer, const Seen&) {
      // The receiver works for a while on each message.
      const auto end = std::chrono::steady_clock::now() + 200us;
      while (std::chrono::steady_clock::now() < end) continue;
      ++count;
    };
    const std::string head(100, 'x');
    for (int i = 0; i < 5000; ++i) pair.client->send(pair.at_client, message_from(head));
    for (int i = 0; i < 5; ++i) pair.client->poll(0us);
    pair.server->poll(0us);
    CHECK(count > 0);
    CHECK(count < 4 * ((8 << 10) / head.size()));  // a call of poll() handles at most three pieces of 8 KiB
  }
}

TEST_CASE("net: a peer that has been silent is heard while another one is a lot of work") {
  for (const bool shared_memory : {true, false}) {
    CAPTURE(shared_memory);
    Pair pair({.shared_memory = shared_memory});
    End quiet({.shared_memory = shared_memory});
    const Peer at_quiet = quiet->connect(pair.address);
    pump({&pair.server, &quiet}, [&] { return quiet.recorder.count(Seen::What::connected) == 1; });
    int before = 0;  // number of messages of the busy peer that were received before the quiet peer's
    bool heard = false;
    pair.server.recorder.on_received = [&](Peer peer, const Seen&) {
      if (peer != pair.at_server) return void(heard = true);
      if (before++ == 0) quiet->send(at_quiet, message_from("here")), quiet->poll(0us);
      const auto end = std::chrono::steady_clock::now() + 15ms;  // longer than a peer's share of time
      while (std::chrono::steady_clock::now() < end) continue;
    };
    const std::string head((8 << 10) - 100, 'x');  // each message fills a piece
    for (int i = 0; i < 100; ++i) pair.client->send(pair.at_client, message_from(head));
    pump({&pair.client, &pair.server}, [&] { return heard; });
    CHECK(before < 24);  // the busy peer had only a few shares of time
  }
}
