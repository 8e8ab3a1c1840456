// Properties of the transport "zmq": CURVE keys.
#include "zmq/zmq_curve.h"

#include <array>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include <heddle/comm_error.h>
#include <heddle/comm_keys.h>

#include "files.h"
#include "message_of.h"
#include "security/curve_key.h"
#include "transport/transport_rig.h"

using namespace heddle;
using namespace heddle::net_detail;
using namespace heddle::net_detail;
using namespace heddle::test;
using namespace std::chrono_literals;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A directory with a key that accepts itself.
struct CurveDirectory {
  TemporaryDirectory directory;
  CommKey key = make_comm_key(directory.path, false);
  std::string curve() const { return kCurveName + read_curve_keys(directory.path, "").open; }
  TransportOptions options() const {
    return {.kind = "zmq", .keys = directory.path, .encrypt_loopback = true};
  }
  void allow(const CurveDirectory& other) const {
    write_file(key.allowed_file, read_file(key.allowed_file) + other.key.line + "\n");
  }
};

// Connects a client that the server refuses. Returns the reason that the client gets.
std::string refusal(const TransportOptions& of_server, const TransportOptions& of_client) {
  End server(of_server), client(of_client);
  client->connect(server->listen("127.0.0.1:0"));
  pump({&server, &client}, [&] { return client.recorder.count(Seen::What::disconnected) == 1; });
  CHECK(client.recorder.seen.size() == 1);
  CHECK(server.recorder.seen.empty());
  return client.recorder.seen.front().text;
}

}  // namespace

TEST_CASE("keys of CURVE are those that ZeroMQ has") {
  for (int i = 0; i < 20; ++i) {
    std::array<char, kCurveKeyText + 1> open{}, secret{};
    REQUIRE(zmq_curve_keypair(open.data(), secret.data()) == 0);
    CHECK(is_curve_key(open.data()));
    CHECK(curve_public_of(secret.data()) == open.data());
    std::array<std::uint8_t, 32> bytes{};
    REQUIRE(zmq_z85_decode(bytes.data(), open.data()) != nullptr);
    CHECK(curve_key_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}) == open.data());
    const std::string own = new_curve_secret();
    REQUIRE(zmq_curve_public(open.data(), own.c_str()) == 0);
    CHECK(curve_public_of(own) == open.data());
  }
  CHECK_FALSE(is_curve_key(""));
  CHECK_FALSE(is_curve_key(std::string(kCurveKeyText, ' ')));
  // In this encoding "#####" is a number above 32 bits.
  CHECK_FALSE(is_curve_key(std::string(kCurveKeyText, '#')));
  CHECK_FALSE(is_curve_key(std::string(kCurveKeyText + 5, '0')));
}

TEST_CASE("each side finds the key of the other on its list") {
  const CurveDirectory server_keys, client_keys, third;
  server_keys.allow(client_keys);
  client_keys.allow(third);
  client_keys.allow(server_keys);
  Pair pair(server_keys.options(), client_keys.options());
  CHECK(pair.server.recorder.connected().front().text == client_keys.curve());
  CHECK(pair.client.recorder.connected().front().text == server_keys.curve());
}

TEST_CASE("a key of CURVE that is not on the list is refused by either side") {
  const CurveDirectory server_keys, client_keys;
  client_keys.allow(server_keys);
  CHECK(holds(refusal(server_keys.options(), client_keys.options()), client_keys.curve()));
  const CurveDirectory other_server;
  other_server.allow(client_keys);
  CHECK(holds(refusal(other_server.options(), client_keys.options()), "or none of this host's has its key"));
}

TEST_CASE("keys of CURVE are rotated without a restart") {
  const CurveDirectory server_keys, client_keys;
  server_keys.allow(client_keys);
  client_keys.allow(server_keys);
  const std::string both = read_file(server_keys.key.allowed_file);
  Pair pair(server_keys.options(), client_keys.options());
  write_file(server_keys.key.allowed_file, server_keys.key.line + "\n");
  pair.pump_until([&] { return pair.client.recorder.count(Seen::What::disconnected) == 1; });
  CHECK(holds(pair.server.recorder.disconnected().front().text,
              "its key " + client_keys.curve() + " is no longer in comm.allowed"));
  write_file(server_keys.key.allowed_file, both);
  std::size_t tries = 1;
  pair.pump_until([&] {  // connects again and again until the server has read its keys
    if (pair.client.recorder.count(Seen::What::connected) == 2) return true;
    if (pair.client.recorder.count(Seen::What::disconnected) == tries)
      pair.client->connect(pair.address), ++tries;
    return false;
  });
  CHECK(pair.server.recorder.connected().back().text == client_keys.curve());
}

TEST_CASE("without a key of CURVE ZeroMQ does not listen where it has to encrypt") {
  const CurveDirectory keys;
  std::filesystem::remove(keys.directory.path / "comm.curve");
  End end(keys.options());
  CHECK(holds(message_of<CommError>([&] { end->listen("127.0.0.1:0"); }), "heddle keygen --force"));
  end->connect("127.0.0.1:9");
  pump({&end}, [&] { return end.recorder.count(Seen::What::disconnected) == 1; });
  CHECK(holds(end.recorder.seen.front().text, "comm.curve"));
}
