// Properties of every transport.
#include "transport/transport.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/error.h>

#include "arguments.h"
#include "message_of.h"
#include "transport/transport_rig.h"

using namespace heddle;
using namespace heddle::net_detail;
using namespace heddle::test;
using namespace std::chrono_literals;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

constexpr std::size_t kSizes[] = {0, 1, 1000, 64 << 10, 100'000, 4 << 20};

// Messages with heads and payloads of many sizes, up to the limit of a head.
std::vector<std::pair<std::string, std::string>> messages_of_all_sizes(unsigned seed) {
  std::vector<std::pair<std::string, std::string>> messages;
  for (const std::size_t head : {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{64 << 10}}) {
    for (const std::size_t payload : kSizes) {
      if (kSanitized && payload > 1 << 20 && head != 100) continue;
      ++seed;
      messages.emplace_back(pattern(head, seed), pattern(payload, seed + 1000));
    }
  }
  return messages;
}

void check_received(const Recorder& recorder, Peer peer,
                    const std::vector<std::pair<std::string, std::string>>& expected) {
  const auto received = recorder.received();
  REQUIRE(received.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(received[i].peer == peer);
    CHECK((received[i].text == expected[i].first));
    CHECK((received[i].payload == expected[i].second));
  }
}

}  // namespace

TEST_CASE("messages of all sizes arrive as they were and in order, both ways at once") {
  on_every_transport([](const TransportOptions& options) {
    Pair pair(options);
    const auto up = messages_of_all_sizes(1), down = messages_of_all_sizes(2);
    for (const auto& [head, payload] : up) pair.client->send(pair.at_client, message_from(head, payload));
    for (const auto& [head, payload] : down) pair.server->send(pair.at_server, message_from(head, payload));
    CHECK(pair.client->queued(pair.at_client) > 0);
    pair.pump_until([&] {
      return pair.server.recorder.count(Seen::What::received) == up.size() &&
             pair.client.recorder.count(Seen::What::received) == down.size();
    });
    check_received(pair.server.recorder, pair.at_server, up);
    check_received(pair.client.recorder, pair.at_client, down);
    CHECK(pair.client->queued(pair.at_client) == 0);
    CHECK(pair.client.recorder.count(Seen::What::disconnected) == 0);
  });
}

TEST_CASE("what is sent before the connection is there waits for it") {
  on_every_transport([](const TransportOptions& options) {
    End server(options), client(options);
    const Peer peer = client->connect(server->listen("127.0.0.1:0"));
    client->send(peer, message_from("early", "bird"));
    CHECK(client->queued(peer) == 9);
    pump({&server, &client}, [&] { return server.recorder.count(Seen::What::received) == 1; });
    CHECK(server.recorder.received().front().text == "early");
    CHECK(server.recorder.received().front().payload == "bird");
  });
}

TEST_CASE("an address that is no address is refused at the call") {
  on_every_transport([](const TransportOptions& options) {
    End end(options);
    CHECK(message_of([&] { end->connect("nowhere"); }) == "address: got 'nowhere', want HOST:PORT");
    CHECK(message_of([&] { end->listen("127.0.0.1:70000"); }) ==
          "address: got '127.0.0.1:70000', want HOST:PORT");
    for (const char* const text : {"a b:1", "a/b:1", "user@a:1", ":9463", "127.0.0.1:0"}) {
      CAPTURE(text);
      CHECK(holds(message_of([&] { end->connect(text); }), std::string("got '") + text + "'"));
    }
    CHECK(holds(message_of([&] { end->connect(std::string(64, 'a') + ".b:1"); }), "more than 63 bytes"));
    CHECK(holds(message_of([&] { end->connect(std::string(300, 'a') + ":1"); }), "a host of 300 bytes"));
  });
}

TEST_CASE("a message that is too long is refused at the call") {
  on_every_transport([](TransportOptions options) {
    options.max_head = 10;
    options.max_payload = 20;
    Pair pair(options);
    CHECK(message_of([&] { pair.client->send(pair.at_client, message_from(pattern(11, 1))); }) ==
          "send: got a head of 11 bytes, want 10 at most");
    CHECK(message_of([&] { pair.client->send(pair.at_client, message_from("", pattern(21, 1))); }) ==
          "send: got a payload of 21 bytes, want 20 at most");
  });
}

// A server calls flush() in the middle of long work.
TEST_CASE("flush() sends without a poll") {
  on_every_transport([](const TransportOptions& options) {
    Pair pair(options);
    for (int i = 1; i <= 3; ++i) {
      pair.server->send(pair.at_server, message_from("here", ""));
      pair.server->flush();
      pump({&pair.client}, [&] { return pair.client.recorder.received().size() == std::size_t(i); });
    }
  });
}

TEST_CASE("of messages that wait the largest priority goes first, and those of one in order") {
  on_every_transport([](const TransportOptions& options) {
    End server(options), client(options);
    const Peer peer = client->connect(server->listen("127.0.0.1:0"));
    const std::vector<std::pair<std::string, int>> sent = {{"a", 0}, {"b", -5}, {"c", 7}, {"d", 0},
                                                           {"e", 7}, {"f", -5}, {"g", 1}};
    for (const auto& [head, priority] : sent) client->send(peer, message_from(head, "", priority));
    pump({&server, &client}, [&] { return server.recorder.count(Seen::What::received) == sent.size(); });
    std::string order;
    for (const Seen& one : server.recorder.received()) order += one.text;
    CHECK(order == "cegadbf");
  });
}

TEST_CASE("a message of a large priority overtakes those that wait behind a full connection") {
  on_every_transport([](const TransportOptions& options) {
    constexpr std::size_t kMessages = kSanitized ? 40 : 100;
    Pair pair(options);
    const std::string large = pattern(1 << 20, 1);
    for (std::size_t i = 0; i < kMessages; ++i) pair.client->send(pair.at_client, message_from("low", large));
    pump({&pair.client}, [&, last = std::size_t{0}]() mutable {  // sends until the connection is full
      const std::size_t before = std::exchange(last, pair.client->queued(pair.at_client));
      return before == last && last < kMessages << 20;
    });
    CHECK(pair.client->queued(pair.at_client) > 0);
    pair.client->send(pair.at_client, message_from("high", "", 1));
    pair.pump_until([&] { return pair.server.recorder.count(Seen::What::received) == kMessages + 1; });
    std::size_t place = 0;
    const auto received = pair.server.recorder.received();
    while (received[place].text != "high") ++place;
    CHECK(place < kMessages / 2);
  });
}

TEST_CASE("a server has many peers, and tells them apart") {
  on_every_transport([](const TransportOptions& options) {
    constexpr std::size_t kPeers = 60;
    End server(options), client(options);
    const std::string address = server->listen("127.0.0.1:0");
    std::vector<Peer> peers;
    server.recorder.on_received = [&](Peer peer, const Seen& seen) {
      server->send(peer, message_from("answer to " + seen.text, seen.payload));
    };
    for (std::size_t i = 0; i < kPeers; ++i) {
      peers.push_back(client->connect(address));
      client->send(peers.back(), message_from(std::to_string(i), pattern(10'000, static_cast<unsigned>(i))));
    }
    pump({&server, &client}, [&] { return client.recorder.count(Seen::What::received) == kPeers; });
    for (const Seen& one : client.recorder.received()) {
      const auto which =
          static_cast<std::size_t>(std::find(peers.begin(), peers.end(), one.peer) - peers.begin());
      CHECK(one.text == "answer to " + std::to_string(which));
      CHECK((one.payload == pattern(10'000, static_cast<unsigned>(which))));
    }
    CHECK(server.recorder.count(Seen::What::connected) == kPeers);
  });
}

TEST_CASE("ten thousand small messages arrive in order, each way") {
  on_every_transport([](const TransportOptions& options) {
    constexpr int kMessages = 10'000;
    Pair pair(options);
    for (int i = 0; i < kMessages; ++i) {
      pair.client->send(pair.at_client, message_from(std::to_string(i), "x"));
      pair.server->send(pair.at_server, message_from(std::to_string(i)));
    }
    std::size_t at_server = 0, at_client = 0;
    bool in_order = true;
    pair.server.recorder.on_received = [&](Peer, const Seen& seen) {
      in_order = in_order && seen.text == std::to_string(at_server++) && seen.payload == "x";
    };
    pair.client.recorder.on_received = [&](Peer, const Seen& seen) {
      in_order = in_order && seen.text == std::to_string(at_client++) && seen.payload.empty();
    };
    pair.pump_until([&] { return at_server == kMessages && at_client == kMessages; });
    CHECK(in_order);
  });
}

TEST_CASE("the payload is received in the memory of the receiver") {
  on_every_transport([](const TransportOptions& options) {
    Pair pair(options);
    const std::string large = pattern(1 << 20, 3);
    std::vector<std::byte> memory(2 << 20);
    std::vector<std::string> asked;
    pair.server.recorder.on_memory_for = [&](Peer peer, const std::string& head, std::size_t bytes) {
      CHECK(peer == pair.at_server);
      asked.push_back(head + " " + std::to_string(bytes));
      return head == "yours" ? std::span<std::byte>{} : std::span(memory);
    };
    const void* place = nullptr;
    pair.server.recorder.on_received = [&](Peer, const Seen& seen) {
      if (seen.text == "mine") place = pair.server.recorder.last_payload.data();
    };
    pair.client->send(pair.at_client, message_from("mine", large));
    pair.client->send(pair.at_client, message_from("none"));
    pair.client->send(pair.at_client, message_from("yours", large));
    pair.pump_until([&] { return pair.server.recorder.count(Seen::What::received) == 3; });
    CHECK(asked == std::vector<std::string>{"mine 1048576", "yours 1048576"});
    CHECK(place == memory.data());
    CHECK((text_from(memory).substr(0, large.size()) == large));
    CHECK((pair.server.recorder.received()[2].payload == large));
  });
}

TEST_CASE("a payload lives until it is sent, and no longer") {
  on_every_transport([](const TransportOptions& options) {
    Pair pair(options);
    const auto owner = std::make_shared<const std::string>(pattern(4 << 20, 1));
    pair.client->send(pair.at_client, {bytes_from("head"), {owner, std::as_bytes(std::span(*owner))}});
    CHECK(owner.use_count() == 2);
    pair.pump_until(
        [&] { return pair.server.recorder.count(Seen::What::received) > 0 && owner.use_count() == 1; });
    CHECK((pair.server.recorder.received().front().payload == *owner));
  });
}

TEST_CASE("wake() ends a poll that waits, and the next one") {
  on_every_transport([](const TransportOptions& options) {
    Pair pair(options);
    pair.server->wake();
    pair.server->poll(24h);
    std::atomic<bool> polls{false};
    std::thread other([&] {
      while (!polls) std::this_thread::yield();
      pair.server->wake();
    });
    polls = true;
    pair.server->poll(24h);
    other.join();
    // The event "connected" is the only one, so only wake() can have ended poll().
    CHECK(pair.server.recorder.seen.size() == 1);
  });
}

TEST_CASE("messages from a thread of its own") {
  on_every_transport([](const TransportOptions& options) {
    constexpr int kRounds = 200;
    Pair pair(options);
    int answered = 0;
    pair.server.recorder.on_received = [&](Peer peer, const Seen& seen) {
      pair.server->send(peer, message_from(seen.text, seen.payload));
    };
    pair.client.recorder.on_received = [&](Peer peer, const Seen&) {
      if (++answered < kRounds) pair.client->send(peer, message_from("round", pattern(2000, 1)));
    };
    std::atomic<bool> stop{false};
    std::thread server([&] {
      while (!stop) pair.server->poll(1h);
    });
    pair.client->send(pair.at_client, message_from("round", pattern(2000, 1)));
    while (answered < kRounds) pair.client->poll(1h);
    stop = true;
    pair.server->wake();
    server.join();
    CHECK(pair.client.recorder.count(Seen::What::received) == kRounds);
    CHECK(pair.server.recorder.count(Seen::What::received) == kRounds);
  });
}
