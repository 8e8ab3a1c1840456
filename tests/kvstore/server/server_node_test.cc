// A server's node and its connections, before and after the scheduler has told it its shards.
#include "server/server_node.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>

#include "core_host.h"

using namespace heddle;
using namespace heddle::kv_detail;

namespace {

// A transport that only records the messages sent.
class Sent final : public Transport {
 public:
  std::string listen(const std::string&) override { return ""; }
  Peer connect(const std::string&) override { return 99; }
  void send(Peer peer, Message message) override { all.emplace_back(peer, std::move(message.head)); }
  std::size_t queued(Peer) const override { return 0; }
  void close(Peer) override {}
  void poll(std::chrono::microseconds) override {}
  void wake() noexcept override {}

  std::vector<std::pair<Peer, Bytes>> all;
};

// Views in which server 42 is the primary of shard 0, and server 43 its backup.
Views views_with_backup(bool handover) {
  Views views{.version = 1, .servers = {{0, 42, "a:1"}, {1, 43, "b:1"}}, .shards = {{}, {}}};
  views.shards[0] = {.epoch = 1, .primary = 42, .backup = 43, .fresh = true, .handover = handover};
  return views;
}

}  // namespace

TEST_CASE(
    "server node: a worker that comes before the scheduler has said what the server keeps is told to wait") {
  Engine engine({.scheduler = Scheduler::naive});
  const EngineScope scope(engine);
  const Clock::time_point now{};
  for (const int number : {-1, 0, 1}) {
    CAPTURE(number);
    Sent sent;
    ServerNode node({.number = number, .servers = 0, .scheduler = "127.0.0.1:1"}, 42, sent, now);
    node.connected(1, "", now);
    node.received(1, encode(hello_of(0, 1, "async")), {}, now);
    REQUIRE(sent.all.size() == 1);
    CHECK(sent.all[0].first == 1);
    const FromServer answer = decode_from_server(sent.all[0].second, 0);
    const auto& reply = std::get<Reply>(answer);
    CHECK(reply.kind == Kind::failed);
    CHECK(reply.clock == 1);  // 1: the refusal is temporary
    CHECK(reply.text == "the scheduler has not said yet what this server keeps");
  }
}

TEST_CASE("server node: a backup that this host can never connect to is named once, and tried again") {
  using namespace std::chrono_literals;
  Engine engine({.scheduler = Scheduler::naive});
  const EngineScope scope(engine);
  Clock::time_point now{1h};
  Sent sent;
  ServerNode node({.number = 0, .servers = 2, .scheduler = "127.0.0.1:1"}, 42, sent, now);
  node.set_views(views_with_backup(false), now);
  for (const char* const why : {"no key", "no key", "no IPv6"}) {
    node.cannot_connect(99, why, now);
    node.tick(now += 2s);  // the node connects again, as peer 99
  }
  std::vector<std::string> told;
  for (const ServerEvent& one : node.take_events()) {
    if (one.name == "backup_unreachable") told.push_back(one.fields.at(1).second);
  }
  CHECK(told == std::vector<std::string>{"no key", "no IPv6"});
}

TEST_CASE("server node: in the middle of long work workers hear now and then that it is there") {
  using namespace std::chrono_literals;
  Engine engine({.scheduler = Scheduler::naive});
  const EngineScope scope(engine);
  Clock::time_point now{1h};
  Sent sent;
  ServerNode node({}, 42, sent, now);
  node.connected(1, "", now);
  node.connected(2, "", now);  // a peer that never says hello
  node.received(1, encode(hello_of(0, 1, "async")), {}, now);
  node.tick(now);
  sent.all.clear();
  node.keep_alive(now += 100ms);
  CHECK(sent.all.empty());
  node.keep_alive(now += 500ms);
  node.keep_alive(now += 100ms);
  REQUIRE(sent.all.size() == 1);
  CHECK(sent.all[0].first == 1);
  const auto reply = std::get<Reply>(decode_from_server(sent.all[0].second, 0));
  CHECK(reply.kind == Kind::done);
  CHECK(reply.number == kPingNumber);
}

TEST_CASE("server node: workers whose answers wait for a copy hear now and then that it is there") {
  using namespace std::chrono_literals;
  Engine engine({.scheduler = Scheduler::naive});
  const EngineScope scope(engine);
  Clock::time_point now{1h};
  Sent sent;
  ServerNode node({.number = 0, .servers = 2, .scheduler = "127.0.0.1:1"}, 42, sent, now);
  node.set_views(views_with_backup(true), now);
  node.connected(1, "", now);
  node.received(1, encode(hello_of(0, 1, "async")), {}, now);
  node.connected(99, "", now);
  const ReplicaMessage hello = decode_replica_message(sent.all.back().second);
  const ReplicaMessage welcome{
      .kind = ReplicaKind::welcome, .shard = 0, .epoch = hello.epoch, .log = hello.log, .number = 0};
  node.received(99, encode(welcome), {}, now);
  const auto told = [&] {
    return std::count_if(sent.all.begin(), sent.all.end(), [](const auto& one) { return one.first == 1; });
  };
  CHECK(told() == 0);  // the worker's welcome waits for the backup's copy
  for (int i = 0; i < 15; ++i) node.tick(now += 100ms);
  REQUIRE(told() >= 3);
  CHECK(told() <= 4);
  const auto last =
      std::find_if(sent.all.rbegin(), sent.all.rend(), [](const auto& one) { return one.first == 1; });
  CHECK(std::get<Reply>(decode_from_server(last->second, 0)).number == kPingNumber);
  for (int i = 0; i < 10; ++i) node.tick(now += 100ms);  // the backup is silent for too long
  const auto until_it_was = told();
  for (int i = 0; i < 20; ++i) node.tick(now += 100ms);
  CHECK(told() == until_it_was);
}
