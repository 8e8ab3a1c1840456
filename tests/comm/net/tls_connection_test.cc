#include "security/tls_connection.h"

#include <array>
#include <poll.h>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "../support/arguments.h"
#include "net/tls_ends.h"

using namespace heddle;
using namespace heddle::net_detail;
using namespace heddle::test;

namespace {

using Bytes = std::vector<std::byte>;

Bytes random_bytes(std::size_t size, std::mt19937& random) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// One direction of a connection. Sends its data in pieces, each with a head of any size.
struct Way {
  Connection *from, *to;
  Bytes data{};
  std::size_t head = 0, sent = 0;
  Bytes got{};
  bool closed = false;

  bool done() const { return closed || got.size() == data.size(); }

  bool send() {
    if (sent == data.size()) return false;
    const auto rest = std::span<const std::byte>(data).subspan(sent);
    const std::size_t of_head = std::min(head, rest.size());
    const Step step = from->send(rest.first(of_head), rest.subspan(of_head));
    closed = closed || step.outcome == Step::Outcome::closed;
    sent += step.bytes;
    return step.outcome == Step::Outcome::moved;
  }

  bool receive(std::size_t most) {
    Bytes room(most);
    const std::size_t of_head = std::min(head, most);
    const auto all = std::span(room);
    const Step step = to->receive(all.first(of_head), all.subspan(of_head));
    closed = closed || step.outcome == Step::Outcome::closed;
    got.insert(got.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(step.bytes));
    return step.outcome == Step::Outcome::moved;
  }
};

// Sends and receives in both directions on one thread. If nothing moves, polls for what both ends ask for, so
// an end that asks for the wrong thing makes the test hang.
void serve(Way& out, Way& back, std::size_t most) {
  while (!out.done() || !back.done()) {
    bool moved = out.send();
    moved = back.send() || moved;
    moved = out.receive(most) || moved;
    moved = back.receive(most) || moved;
    if (moved || out.closed || back.closed) continue;
    const auto a = out.from->before_sleep(out.sent < out.data.size(), true);
    const auto b = back.from->before_sleep(back.sent < back.data.size(), true);
    if (!a || !b) continue;
    std::array<pollfd, 2> polled{*a, *b};
    REQUIRE(poll(polled.data(), polled.size(), 20000) > 0);
  }
}

void check_both_ways(const Ends& ends, std::size_t size, std::size_t head, std::size_t most,
                     std::mt19937& random) {
  Way out{ends.client.get(), ends.server.get(), random_bytes(size, random), head};
  Way back{ends.server.get(), ends.client.get(), random_bytes(size / 2 + 1, random), head};
  serve(out, back, most);
  CHECK(out.got == out.data);
  CHECK(back.got == back.data);
}

Step::Outcome shake_hands(Connection& one, Connection& other) {
  std::array<std::byte, 1> byte{};
  Step::Outcome outcome = Step::Outcome::would_block;
  for (int i = 0; i < 1000 && outcome == Step::Outcome::would_block; ++i) {
    one.send(byte, {});
    outcome = other.receive(byte, {}).outcome;
  }
  return outcome;
}

// Exchanges bytes until both connections know why their handshake has failed.
void fall_out(Connection& one, Connection& other) {
  std::array<std::byte, 1> byte{};
  for (int i = 0; i < 10; ++i) {
    one.send(byte, {});
    other.receive(byte, {});
    one.receive(byte, {});
  }
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("tls: all sizes, heads and pieces, both ways at once") {
  const Keys keys;
  std::mt19937 random(1);
  const Ends ends = ends_of(keys, keys);
  for (std::size_t size : {1u, 7u, 160u, 16383u, 16384u, 16385u, 65536u, 3'000'001u}) {
    for (std::size_t head : {0u, 1u, 160u, 20000u}) {
      CAPTURE(size);
      CAPTURE(head);
      check_both_ways(ends, size, head, size < 1000 ? 3 : 70001, random);
    }
  }
}

TEST_CASE("tls: keys of the connection change on the way, and nothing else does") {
  const Keys keys;
  std::mt19937 random(2);
  const Ends ends = ends_of(keys, keys, {.bytes_per_key = 50'000});
  for (int i = 0; i < 5; ++i) check_both_ways(ends, 1'000'000, 160, 100'000, random);
}

TEST_CASE("tls: an end that is said comes after all that was sent, and the other direction goes on") {
  const Keys keys;
  std::mt19937 random(3);
  const Ends ends = ends_of(keys, keys);
  check_both_ways(ends, 1000, 0, 1000, random);
  Way out{ends.client.get(), ends.server.get(), random_bytes(5000, random)};
  while (out.sent < out.data.size()) REQUIRE(out.send());
  ends.client->finish_sending();
  while (!out.closed) out.receive(700);
  CHECK(out.got == out.data);
  CHECK(ends.server->handshake_error() == "");
  Way back{ends.server.get(), ends.client.get(), random_bytes(5000, random)};
  while (back.send()) continue;
  while (!back.done()) back.receive(700);
  CHECK(back.got == back.data);
}

TEST_CASE("tls: who closes in the middle is gone, and no signal comes of it") {
  const Keys keys;
  std::mt19937 random(4);
  Ends ends = ends_of(keys, keys);
  check_both_ways(ends, 1000, 0, 1000, random);
  Way out{ends.client.get(), ends.server.get(), random_bytes(10'000'000, random)};
  while (out.send()) continue;  // sends until the kernel's buffers are full
  ends.server.reset();
  while (!out.closed) out.send();
  std::array<std::byte, 10> byte{};
  CHECK(ends.client->receive(byte, {}).outcome == Step::Outcome::closed);
  CHECK(ends.client->all_delivered());
}

TEST_CASE("tls: a key that is not on the list is refused, and named on both sides with what helps") {
  const Keys one, other;
  for (const bool client_refuses : {true, false}) {
    const Keys &refusing = client_refuses ? one : other, &refused = client_refuses ? other : one;
    const Keys stranger, friend_of_all;
    write_file(refused.key.allowed_file, refused.key.line + "\n" + refusing.key.line + "\n");
    write_file(refusing.key.allowed_file, "# nobody else\n" + refusing.key.line + "\n");
    const Ends ends = ends_of(one, other);
    fall_out(*ends.client, *ends.server);
    Connection &loser = client_refuses ? *ends.server : *ends.client,
               &winner = client_refuses ? *ends.client : *ends.server;
    CHECK(holds(winner.handshake_error(), "the key " + refused.fingerprint()));
    CHECK(holds(winner.handshake_error(), refusing.key.allowed_file));
    CHECK(holds(loser.handshake_error(), "does not accept this process's key " + refused.fingerprint()));
    write_file(refusing.key.allowed_file, refusing.key.line + "\n" + refused.key.line + "\n");
    const Ends now = ends_of(one, other);
    CHECK(shake_hands(*now.client, *now.server) == Step::Outcome::moved);
  }
}

TEST_CASE("tls: who does not encrypt is told apart from who has the wrong key") {
  const Keys keys;
  for (const TlsSide side : {TlsSide::client, TlsSide::server}) {
    auto [a, b] = socket_pair();
    const auto secure = tls_connection(std::move(a), make_tls_context(keys.files()), side);
    const auto plain = plain_connection(std::move(b));
    const std::string words = "HDVZ and so on, as a rendezvous has it";
    CHECK(plain->send(std::as_bytes(std::span(words)), {}).bytes == words.size());
    std::array<std::byte, 10> byte{};
    CHECK(secure->receive(byte, {}).outcome == Step::Outcome::closed);
    CHECK(holds(secure->handshake_error(), "does not encrypt"));
  }
}

// The client's and the server's bytes pass a proxy that flips one bit.
TEST_CASE("tls: a bit that is changed on the way ends the connection, and is never delivered") {
  const Keys keys;
  std::mt19937 random(5);
  const auto context = make_tls_context(keys.files());
  for (int trial = 0; trial < 300; ++trial) {
    auto [client_end, client_wire] = socket_pair();
    auto [server_end, server_wire] = socket_pair();
    const auto client = tls_connection(std::move(client_end), context, TlsSide::client);
    const auto server = tls_connection(std::move(server_end), context, TlsSide::server);
    Way out{client.get(), server.get(), random_bytes(3000, random)};
    Way back{server.get(), client.get(), random_bytes(3000, random)};
    const std::size_t flip_at = random() % 7000;
    std::size_t until_flip = flip_at;
    bool flipped = false, gone = false;
    const auto pass_on = [&](const Socket& from, const Socket& to) {
      std::array<char, 2000> bytes;
      const ssize_t got = recv(from.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (got <= 0) return;
      const auto count = static_cast<std::size_t>(got);
      if (!flipped && until_flip < count) {
        bytes[until_flip] ^= static_cast<char>(1 << random() % 8);
        flipped = true;
      }
      until_flip -= std::min(until_flip, count);
      gone = send(to.fd(), bytes.data(), count, MSG_NOSIGNAL) < 0 || gone;
    };
    for (int step = 0; step < 200 && !(out.closed || back.closed || gone); ++step) {
      out.send();
      back.send();
      pass_on(client_wire, server_wire);
      pass_on(server_wire, client_wire);
      out.receive(5000);
      back.receive(5000);
    }
    REQUIRE(flipped);
    // The flip may go unnoticed only at the beginning, where the version field of the first handshake records
    // is unprotected. A changed length makes the reader wait for ever.
    const bool undone = out.closed || back.closed || gone || !out.done() || !back.done();
    CHECK((undone || flip_at < 2500));
    for (const Way* way : {&out, &back}) {
      REQUIRE(way->got.size() <= way->data.size());
      CHECK(std::equal(way->got.begin(), way->got.end(), way->data.begin()));
    }
  }
}

// The argument --hellos=N makes a long run.
TEST_CASE("tls: hostile bytes end the connection before anything is delivered") {
  const Keys keys;
  std::mt19937 random(6);
  const auto context = make_tls_context(keys.files());
  std::string hello(4096, '\0');
  {
    auto [a, b] = socket_pair();
    const auto client = tls_connection(std::move(a), context, TlsSide::client);
    std::array<std::byte, 1> byte{};
    client->send(byte, {});
    hello.resize(static_cast<std::size_t>(recv(b.fd(), hello.data(), hello.size(), 0)));
    CHECK(is_tls_hello(hello));
  }
  const long long hellos = argument("hellos", 10000);
  for (long long i = 0; i < hellos; ++i) {
    auto [a, b] = socket_pair();
    const auto server = tls_connection(std::move(a), context, TlsSide::server);
    std::string hostile = hello;
    for (std::size_t changes = random() % 8; changes > 0; --changes)
      hostile[random() % hostile.size()] = static_cast<char>(random());
    if (i % 3 == 1) hostile.resize(random() % hostile.size());
    if (i % 3 == 2) {
      hostile.resize(random() % 300);
      for (char& letter : hostile) letter = static_cast<char>(random());
    }
    hostile += std::string(random() % 100, static_cast<char>(random()));
    REQUIRE(send(b.fd(), hostile.data(), hostile.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(hostile.size()));
    std::array<std::byte, 64> room{};
    REQUIRE(server->receive(room, {}).bytes == 0);
    b.close();
    Step step = server->receive(room, {});
    CHECK(step.outcome == Step::Outcome::closed);
    CHECK(step.bytes == 0);
  }
}
