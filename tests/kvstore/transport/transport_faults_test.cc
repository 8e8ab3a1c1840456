// Peers that leave, do not exist, have no key, or send malformed messages.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <heddle/comm_error.h>

#include "arguments.h"
#include "connection/socket.h"
#include "message_of.h"
#include "transport/address.h"
#include "transport/frame.h"
#include "transport/transport_rig.h"

using namespace heddle;
using namespace heddle::net_detail;
using namespace heddle::test;
using namespace std::chrono_literals;

namespace {

// A time within which a peer that responds at once certainly has responded.
constexpr std::chrono::milliseconds kSoon = 1000ms;

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Checks that a pair's connection still works: sends a message and gets an answer.
void check_alive(Pair& pair) {
  const std::size_t before = pair.client.recorder.count(Seen::What::received);
  const std::size_t at_server = pair.server.recorder.count(Seen::What::received);
  pair.client->send(pair.at_client, message_from("are you there", pattern(100'000, 1)));
  pair.pump_until([&] { return pair.server.recorder.count(Seen::What::received) == at_server + 1; });
  pair.server->send(pair.at_server, message_from("I am"));
  pair.pump_until([&] { return pair.client.recorder.count(Seen::What::received) == before + 1; });
  CHECK(pair.client.recorder.received().back().text == "I am");
  CHECK((pair.server.recorder.received().back().payload == pattern(100'000, 1)));
}

// A second client, connected to the pair's server.
struct Another {
  Pair& pair;
  End end;
  Peer at_client = 0, at_server = 0;
  Another(Pair& with, const TransportOptions& options) : pair(with), end(options) {
    const std::size_t before = pair.server.recorder.count(Seen::What::connected);
    at_client = end->connect(pair.address);
    pump([&] {
      return pair.server.recorder.count(Seen::What::connected) > before &&
             end.recorder.count(Seen::What::connected) > 0;
    });
    at_server = pair.server.recorder.connected().back().peer;
  }
  void pump(const std::function<bool()>& done) {
    heddle::test::pump({&pair.server, &pair.client, &end}, done);
  }
};

// Connects to each kind of socket on which a server at the address listens, sends the bytes, and returns the
// open sockets.
std::vector<net_detail::Socket> knock(const std::string& address, const std::string& bytes) {
  const Address parsed = parse_address(address);
  std::vector<net_detail::Socket> sockets;
  sockets.push_back(net_detail::connect_to(parsed.host, parsed.port));
  pollfd ready{sockets.front().fd(), POLLOUT, 0};
  REQUIRE(::poll(&ready, 1, 10'000) == 1);
  for (const char* kind : {"net", "zmq"}) {
    if (auto socket = connect_locally(local_name(kind, parsed))) sockets.push_back(std::move(socket));
  }
  for (const auto& socket : sockets) {
    if (!bytes.empty())
      CHECK(::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  return sockets;
}

// Whether the other side has closed the connection; discards unread bytes.
bool is_closed(const net_detail::Socket& socket) {
  char unread[4096];
  ssize_t got = 0;
  do got = ::recv(socket.fd(), unread, sizeof unread, MSG_DONTWAIT);
  while (got > 0);
  return got == 0 || (errno != EAGAIN && errno != EINTR);
}

bool all_closed(const std::vector<net_detail::Socket>& sockets) {
  return std::all_of(sockets.begin(), sockets.end(), is_closed);
}

}  // namespace

TEST_CASE("a peer that goes is reported once, after its last message") {
  on_every_transport([](const TransportOptions& options) {
    Pair pair(options);
    pair.client->send(pair.at_client, message_from("the last word", pattern(100'000, 1)));
    pump({&pair.client}, [&] { return pair.client->queued(pair.at_client) == 0; });
    pair.client.transport.reset();
    pump({&pair.server}, [&] { return pair.server.recorder.count(Seen::What::disconnected) > 0; });
    REQUIRE(pair.server.recorder.seen.size() == 3);
    CHECK(pair.server.recorder.seen[1].text == "the last word");
    CHECK(pair.server.recorder.seen[2].peer == pair.at_server);
    for (int i = 0; i < 10; ++i) pair.server->poll(0us);
    CHECK(pair.server.recorder.seen.size() == 3);
  });
}

TEST_CASE("a server that goes is reported to its clients") {
  on_every_transport([](const TransportOptions& options) {
    Pair pair(options);
    pair.server.transport.reset();
    pump({&pair.client}, [&] { return pair.client.recorder.count(Seen::What::disconnected) > 0; });
    CHECK(pair.client.recorder.disconnected().front().peer == pair.at_client);
    CHECK(pair.client.recorder.count(Seen::What::disconnected) == 1);
  });
}

TEST_CASE("what is sent to a peer that is gone is ignored") {
  on_every_transport([](const TransportOptions& options) {
    Pair pair(options);
    pair.client.transport.reset();
    pump({&pair.server}, [&] { return pair.server.recorder.count(Seen::What::disconnected) > 0; });
    pair.server->send(pair.at_server, message_from("hello?"));
    CHECK(pair.server->queued(pair.at_server) == 0);
    pair.server->send(4711, message_from("hello?"));
    CHECK(pair.server->queued(4711) == 0);
    pair.server->close(4711);
    pair.server->poll(0us);
    CHECK(pair.server.recorder.count(Seen::What::disconnected) == 1);
  });
}

TEST_CASE("messages that wait are dropped with their peer") {
  on_every_transport([](const TransportOptions& options) {
    Pair pair(options);
    const auto owner = std::make_shared<const std::string>(pattern(4 << 20, 1));
    for (int i = 0; i < 100; ++i)
      pair.server->send(pair.at_server, {bytes_from("head"), {owner, std::as_bytes(std::span(*owner))}});
    for (int i = 0; i < 20; ++i) pair.server->poll(100us);
    CHECK(pair.server->queued(pair.at_server) > 0);
    pair.client.transport.reset();
    pump({&pair.server},
         [&] { return pair.server.recorder.count(Seen::What::disconnected) > 0 && owner.use_count() == 1; });
    CHECK(pair.server->queued(pair.at_server) == 0);
  });
}

TEST_CASE("close() is no event here, and one there") {
  on_every_transport([](const TransportOptions& options) {
    for (const bool by_server : {true, false}) {
      CAPTURE(by_server);
      Pair pair(options);
      Another another(pair, options);
      End& closes = by_server ? pair.server : pair.client;
      End& other = by_server ? pair.client : pair.server;
      closes->close(by_server ? pair.at_server : pair.at_client);
      pair.pump_until([&] { return other.recorder.count(Seen::What::disconnected) > 0; });
      CHECK(other.recorder.disconnected().front().peer == (by_server ? pair.at_client : pair.at_server));
      CHECK(closes.recorder.count(Seen::What::disconnected) == 0);
      another.end->send(another.at_client, message_from("still here"));
      another.pump([&] { return pair.server.recorder.count(Seen::What::received) > 0; });
      CHECK(pair.server.recorder.received().front().peer == another.at_server);
    }
  });
}

TEST_CASE("a receiver may close any peer from any event") {
  on_every_transport([](const TransportOptions& options) {
    Pair pair(options);
    pair.server.recorder.on_received = [&](Peer peer, const Seen&) { pair.server->close(peer); };
    for (int i = 0; i < 5; ++i)
      pair.client->send(pair.at_client, message_from(std::to_string(i), pattern(1000, 1)));
    pair.pump_until([&] { return pair.client.recorder.count(Seen::What::disconnected) > 0; });
    CHECK(pair.server.recorder.count(Seen::What::received) == 1);
    CHECK(pair.server.recorder.count(Seen::What::disconnected) == 0);

    Another second(pair, options);
    pair.server.recorder.on_memory_for = [&](Peer peer, const std::string&, std::size_t) {
      pair.server->close(peer);
      return std::span<std::byte>{};
    };
    second.end->send(second.at_client, message_from("with a payload", pattern(100'000, 1)));
    second.pump([&] { return second.end.recorder.count(Seen::What::disconnected) > 0; });
    CHECK(pair.server.recorder.count(Seen::What::received) == 1);

    pair.server.recorder.on_connected = [&](Peer peer) { pair.server->close(peer); };
    End third(options);
    third->connect(pair.address);
    pump({&pair.server, &third}, [&] { return third.recorder.count(Seen::What::disconnected) > 0; });
    CHECK(pair.server.recorder.count(Seen::What::disconnected) == 0);
  });
}

TEST_CASE("a peer that was never there is reported") {
  on_every_transport([](const TransportOptions& options) {
    std::string address;
    {
      End server(options);
      address = server->listen("127.0.0.1:0");
    }
    End client(options);
    const Peer peer = client->connect(address);
    client->send(peer, message_from("hello?"));
    pump({&client}, [&] { return client.recorder.count(Seen::What::disconnected) > 0; });
    CHECK(client.recorder.seen.size() == 1);
    CHECK(client.recorder.seen.front().peer == peer);
    CHECK(client.recorder.seen.front().text != "");
    const Peer nobody = client->connect("no..name:1234");
    pump({&client}, [&] { return client.recorder.count(Seen::What::disconnected) == 2; });
    CHECK(client.recorder.seen.back().peer == nobody);
  });
}

TEST_CASE("a server that has come back at its address is another peer") {
  on_every_transport([](const TransportOptions& options) {
    Pair pair(options);
    pair.server.transport.reset();
    pump({&pair.client}, [&] { return pair.client.recorder.count(Seen::What::disconnected) > 0; });
    End again(options);
    CHECK(again->listen(pair.address) == pair.address);
    const Peer peer = pair.client->connect(pair.address);
    CHECK(peer != pair.at_client);
    pair.client->send(peer, message_from("here I am again"));
    pump({&again, &pair.client}, [&] { return again.recorder.count(Seen::What::received) > 0; });
    CHECK(again.recorder.received().front().text == "here I am again");
  });
}

TEST_CASE("a client that has gone may come back") {
  on_every_transport([](const TransportOptions& options) {
    Pair pair(options);
    for (int i = 0; i < 20; ++i) {
      Another another(pair, options);
      another.end->send(another.at_client, message_from("visitor", std::to_string(i)));
      another.pump([&] {
        return pair.server.recorder.count(Seen::What::received) == static_cast<std::size_t>(i + 1);
      });
    }
    pair.pump_until([&] { return pair.server.recorder.count(Seen::What::disconnected) == 20; });
    check_alive(pair);
  });
}

TEST_CASE("two servers cannot listen at one address") {
  on_every_transport([](const TransportOptions& options) {
    End one(options), other(options);
    const std::string address = one->listen("127.0.0.1:0");
    CHECK(holds(message_of<CommError>([&] { other->listen(address); }), "cannot listen"));
  });
}

TEST_CASE("a process that is killed is reported") {
  on_every_transport([](const TransportOptions& options) {
    Pair pair(options);
    const pid_t child = ::fork();
    if (child == 0) {
      End end(options);
      end->send(end->connect(pair.address), message_from("kill me"));
      for (;;) end->poll(1s);
    }
    REQUIRE(child > 0);
    pair.pump_until([&] { return pair.server.recorder.count(Seen::What::received) == 1; });
    CHECK(pair.server.recorder.received().front().text == "kill me");
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    pair.pump_until([&] { return pair.server.recorder.count(Seen::What::disconnected) == 1; });
    CHECK(pair.server.recorder.disconnected().front().peer == pair.server.recorder.received().front().peer);
    check_alive(pair);
  });
}

TEST_CASE("a message beyond the limits of the other side ends its connection alone") {
  on_every_transport([](const TransportOptions& generous) {
    TransportOptions strict = generous;
    strict.max_head = 1000;
    strict.max_payload = 200'000;
    Pair pair(strict);
    for (const bool head : {true, false}) {
      CAPTURE(head);
      const std::size_t before = pair.server.recorder.count(Seen::What::disconnected);
      Another another(pair, generous);
      const std::string large = pattern(head ? 1001 : 200'001, 1);
      another.end->send(another.at_client, head ? message_from(large) : message_from("", large));
      another.pump([&] {
        return pair.server.recorder.count(Seen::What::disconnected) == before + 1 &&
               another.end.recorder.count(Seen::What::disconnected) > 0;
      });
      CHECK(pair.server.recorder.disconnected().back().peer == another.at_server);
      CHECK(pair.server.recorder.count(Seen::What::received) == before);
      check_alive(pair);
    }
  });
}

TEST_CASE("an exception of the receiver ends one connection, which is told why") {
  on_every_transport([](const TransportOptions& options) {
    Pair pair(options);
    pair.server.recorder.on_received = [](Peer, const Seen& seen) {
      if (seen.text == "bad head") throw std::runtime_error("I do not like that head");
    };
    pair.server.recorder.on_memory_for = [](Peer, const std::string& head, std::size_t) {
      if (head == "bad payload") throw std::runtime_error("there is no memory for that");
      return std::span<std::byte>{};
    };
    for (const std::string head : {"bad head", "bad payload"}) {
      Another another(pair, options);
      const std::size_t before = pair.server.recorder.count(Seen::What::disconnected);
      another.end->send(another.at_client, message_from(head, pattern(1000, 1)));
      another.end->send(another.at_client, message_from("after it"));
      another.pump([&] { return another.end.recorder.count(Seen::What::disconnected) > 0; });
      REQUIRE(pair.server.recorder.count(Seen::What::disconnected) == before + 1);
      const Seen end = pair.server.recorder.disconnected().back();
      CHECK(end.peer == another.at_server);
      CHECK(end.text == (head == "bad head" ? "I do not like that head" : "there is no memory for that"));
      CHECK(pair.server.recorder.seen.back().what == Seen::What::disconnected);
      check_alive(pair);
    }
  });
}

TEST_CASE("too little memory for a payload ends the connection") {
  on_every_transport([](const TransportOptions& options) {
    Pair pair(options);
    std::vector<std::byte> memory(999);
    pair.server.recorder.on_memory_for = [&](Peer, const std::string&, std::size_t) {
      return std::span(memory);
    };
    pair.client->send(pair.at_client, message_from("head", pattern(1000, 1)));
    pair.pump_until([&] { return pair.server.recorder.count(Seen::What::disconnected) > 0; });
    CHECK(holds(pair.server.recorder.disconnected().front().text, "too little memory"));
    CHECK(pair.server.recorder.count(Seen::What::received) == 0);
  });
}

TEST_CASE("connections beyond the limit are closed, and there is room again when others go") {
  on_every_transport([](TransportOptions options) {
    options.max_connections = 2;
    Pair pair(options);
    auto second = std::make_unique<Another>(pair, options);
    End third(options);
    third->connect(pair.address);
    pump({&pair.server, &third}, [&] { return third.recorder.count(Seen::What::disconnected) > 0; });
    CHECK(third.recorder.count(Seen::What::connected) == 0);
    CHECK(pair.server.recorder.count(Seen::What::connected) == 2);
    if (options.kind == "net")
      CHECK(pair.server->refused_connections().last.ends_with("there are max-connections already"));
    second.reset();
    pair.pump_until([&] { return pair.server.recorder.count(Seen::What::disconnected) == 1; });
    third->connect(pair.address);
    pump({&pair.server, &third}, [&] { return third.recorder.count(Seen::What::connected) == 1; });
    check_alive(pair);
  });
}

TEST_CASE("a connection that sends garbage is closed, and the others go on") {
  on_every_transport([](TransportOptions options) {
    options.handshake_timeout = kSoon;
    Pair pair(options);
    const auto truncated = encode(preamble_of(bytes_from("head"), {}));
    for (const std::string& bytes :
         {pattern(100'000, 7), std::string("GET / HTTP/1.1\r\n\r\n"), text_from(truncated).substr(0, 20),
          std::string(1, '\x16'), std::string(64, '\0')}) {
      const auto sockets = knock(pair.address, bytes);
      pair.pump_until([&] { return all_closed(sockets); });
      check_alive(pair);
    }
    CHECK(pair.server.recorder.count(Seen::What::connected) == 1);
    CHECK(pair.server.recorder.count(Seen::What::disconnected) == 0);
  });
}

TEST_CASE("who connects and says nothing is closed") {
  on_every_transport([](TransportOptions options) {
    options.handshake_timeout = kSoon;
    Pair pair(options);
    const auto sockets = knock(pair.address, "");
    pair.pump_until([&] { return all_closed(sockets); });
    check_alive(pair);
    CHECK(pair.server.recorder.count(Seen::What::connected) == 1);
  });
}

TEST_CASE("who listens and says nothing is given up") {
  on_every_transport([](TransportOptions options) {
    options.handshake_timeout = 100ms;  // too short for any handshake
    const auto listener = net_detail::listen_on("127.0.0.1", {}, 10);
    const Address address{"127.0.0.1", net_detail::port_of(listener)};
    const auto local = listen_locally(local_name(options.kind, address), 10);
    REQUIRE(local);
    End client(options);
    client->connect(address.text());
    pump({&client}, [&] { return client.recorder.count(Seen::What::disconnected) > 0; });
    CHECK(client.recorder.seen.size() == 1);
  });
}

TEST_CASE("another user of this host is refused") {
  if (::geteuid() != 0) return;  // only root can change to another user
  on_every_transport([](TransportOptions options) {
    if (options.encrypt_loopback) return;  // encrypted connections are checked by key, not by user
    options.handshake_timeout = 10s;
    Pair pair(options);
    const pid_t child = ::fork();
    if (child == 0) {
      bool refused = ::setresgid(65534, 65534, 65534) == 0 && ::setresuid(65534, 65534, 65534) == 0;
      End end(options);
      end->connect(pair.address);
      while (end.recorder.seen.empty()) end->poll(1s);
      refused = refused && end.recorder.seen.front().what == Seen::What::disconnected;
      ::_exit(refused ? 0 : 1);
    }
    REQUIRE(child > 0);
    int status = -1;
    pair.pump_until([&] { return ::waitpid(child, &status, WNOHANG) == child; });
    CHECK(status == 0);
    CHECK(pair.server.recorder.count(Seen::What::connected) == 1);
    check_alive(pair);
  });
}
