// Permissions: keys have roles, and only the primary named by the scheduler may speak to a backup.
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core_host.h"
#include "dist_job.h"
#include "key_directory.h"
#include "membership/scheduler_core.h"
#include "message_of.h"
#include "server/server_node.h"
#include "simulation/cluster.h"
#include "transport/transport_rig.h"
#include "wire/replication.h"

using namespace heddle;
using namespace heddle::kv_detail;
using namespace heddle::net_detail;
using namespace heddle::test;
using namespace std::chrono_literals;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A transport that only records the heads of the messages sent. All peers' keys have the given roles.
class Sent final : public Transport {
 public:
  explicit Sent(KeyRoles given) : roles(given) {}
  std::string listen(const std::string&) override { return ""; }
  Peer connect(const std::string&) override { return 99; }
  void send(Peer, Message message) override { all.push_back(std::move(message.head)); }
  std::size_t queued(Peer) const override { return 0; }
  void close(Peer) override {}
  void poll(std::chrono::microseconds) override {}
  void wake() noexcept override {}
  KeyRoles roles_of(const std::string&) const override { return roles; }
  const KeyRoles roles;
  std::vector<Bytes> all;
};

// A process on the simulated network that is no server, but connects to one as a primary would.
class Impostor final : public sim::Process {
 public:
  Impostor(sim::SimTransport& transport, const std::string& address, const ReplicaMessage& hello)
      : transport_(transport), address_(address), hello_(hello) {}
  void tick() override {
    if (peer_ == 0) peer_ = transport_.connect(address_);
  }
  void connected(Peer, const std::string&) override { transport_.send(peer_, {encode(hello_)}); }
  void disconnected(Peer, const std::string&) override {}
  std::span<std::byte> memory_for(Peer, std::span<const std::byte>, std::size_t) override { return {}; }
  void received(Peer, std::span<const std::byte> head, std::span<std::byte>) override {
    if (!answer) answer = decode_replica_message(head).kind;
  }
  std::optional<ReplicaKind> answer{};

 private:
  sim::SimTransport& transport_;
  const std::string address_;
  const ReplicaMessage hello_;
  Peer peer_ = 0;
};

// A cluster with one worker, which pushes to one shard, and a complete backup of that shard.
struct Copied {
  sim::Plan plan = [] {
    sim::Plan made{.servers = 2, .workers = 1, .replicas = 2, .rounds = 300, .consistency = "async"};
    made.keys = {{.shard = 0}};
    made.groups = {{0}};
    made.most_pause = 50ms;
    return made;
  }();
  sim::Cluster cluster{plan, 1};
  Copied() {
    cluster.pass(1s);
    REQUIRE(is_synced());
  }
  ShardView shard() const { return cluster.decided().views.shards[0]; }
  bool is_synced() const { return cluster.decided().synced[0] == shard().epoch; }
  // The hello that the primary of the current epoch sends to its backup.
  ReplicaMessage hello() const {
    return {.epoch = shard().epoch,
            .log = 4711,
            .version = kProtocol,
            .primary = shard().primary,
            .secret = cluster.decided().secret};
  }
  std::optional<ReplicaKind> answer_to(const ReplicaMessage& hello) {
    Network& network = cluster.network();
    SimTransport& transport = network.add("x" + std::to_string(++impostors));
    Impostor impostor(transport, cluster.address_of(1), hello);
    network.run(transport, impostor, 20ms);
    while (!impostor.answer) cluster.step();
    network.kill(transport.address());
    return impostor.answer;
  }
  using Network = sim::Network;
  using SimTransport = sim::SimTransport;
  int impostors = 0;
};

}  // namespace

TEST_CASE("roles: a key that is no server's neither enlists as a server nor speaks as a primary") {
  const Engine engine({.scheduler = Scheduler::naive});
  const EngineScope scope(const_cast<Engine&>(engine));
  const Clock::time_point now{};
  SchedulerCore core({.servers = 1}, {.cluster = 1, .secret = 7}, now);
  const auto answer_to = [&](Peer peer, Role role, KeyRoles roles) {
    core.connected(peer, roles);
    core.received(
        peer,
        encode(Registration{.role = role, .workers = 1, .incarnation = peer, .job = "job", .address = "h:1"}),
        now);
    return decode_from_scheduler(core.take_outbox().messages.at(0).second);
  };
  const KeyRoles worker{.worker = true}, server{.server = true};
  const auto text = [](const FromScheduler& answer) { return std::get<Refused>(answer).text; };
  CHECK(holds(text(answer_to(1, Role::server, worker)),
              "lacks the role server in the scheduler's comm.allowed"));
  CHECK(holds(text(answer_to(2, Role::worker, server)),
              "lacks the role worker in the scheduler's comm.allowed"));
  CHECK(std::get<Registered>(answer_to(3, Role::server, server)).secret == 7);
  CHECK(std::get<Registered>(answer_to(4, Role::worker, worker)).secret == 0);

  Sent of_worker(worker), of_server(server);
  ServerNode node({}, 42, of_worker, now);
  node.connected(1, "sha256:a", now);
  CHECK_THROWS_WITH_AS(node.received(1, encode(ReplicaMessage{}), {}, now),
                       "its key sha256:a lacks the role server in comm.allowed", MalformedMessage);
  const auto events = node.take_events();
  CHECK(std::count_if(events.begin(), events.end(),
                      [](const auto& one) { return one.name == "primary_refused"; }) == 1);
  ServerNode other({}, 42, of_server, now);
  other.connected(1, "sha256:b", now);
  other.received(1, encode(hello_of(0, 1, "async")), {}, now);
  const FromServer answer = decode_from_server(of_server.all.at(0), 0);
  CHECK(std::get<Reply>(answer).text == "its key lacks the role worker in comm.allowed");
  CHECK(std::get<Reply>(answer).clock == 0);  // 0: the refusal is permanent
}

TEST_CASE("roles: workers use no server whose key is none, and a key that loses its role is put out") {
  for (const char* const kind : kTransports) {
    CAPTURE(std::string(kind));
    const KeyDirectory server, client;
    const auto options = [&](const KeyDirectory& keys) {
      return TransportOptions{.kind = kind, .keys = keys.directory.path, .encrypt_loopback = true};
    };
    server.allow(client, "roles:worker");
    // This list gives the server's key no roles, so the key counts as a worker's.
    client.allow(server, "by hand");
    {
      End of_server(options(server)), of_client(options(client));
      of_client->connect(of_server->listen("127.0.0.1:0"));
      pump({&of_server, &of_client}, [&] { return of_client.recorder.count(Seen::What::disconnected) == 1; });
      CHECK(of_client.recorder.count(Seen::What::connected) == 0);
    }
    client.allow(server, "roles:server");
    server.allow(client, "roles:worker");
    Pair pair(options(server), options(client));
    const std::string shown = pair.server.recorder.connected().front().text;
    CHECK_FALSE(pair.server->roles_of(shown).server);
    server.allow(client,
                 // The client's key gets the role after the connection was made, and later loses it.
                 "roles:worker,server");
    pair.pump_until([&] { return pair.server->roles_of(shown).server; });
    CHECK(pair.server->roles_of("").worker);
    server.allow(client, "roles:worker");
    pair.pump_until([&] { return pair.client.recorder.count(Seen::What::disconnected) == 1; });
    CHECK(
        holds(pair.server.recorder.disconnected().front().text, "has lost a role or a job in comm.allowed"));
    CHECK_FALSE(pair.server->roles_of(shown).server);
    CHECK(pair.server->roles_of(shown).worker);
  }
}

TEST_CASE("roles: a server takes no worker whose key has not that role") {
  const KeyDirectory server, client;
  server.allow(client, "roles:server");
  client.allow(server, "roles:server");
  const Running running({.keys = server.directory.path, .encrypt_loopback = true});
  ClientOptions options;
  options.servers = {running.server.address()};
  options.transport = {.keys = client.directory.path, .encrypt_loopback = true};
  Client worker(options);
  CHECK(holds(message_of<StoreError>([&] { worker.call(0, {.request = {.kind = Kind::barrier}}); }),
              "its key lacks the role worker in comm.allowed"));
}

TEST_CASE("roles: who does not prove that it is the primary does not disturb the copy") {
  Copied copied;
  const std::uint64_t epoch = copied.shard().epoch;
  ReplicaMessage hello = copied.hello();
  hello.version = 1;
  CHECK(copied.answer_to(hello) == ReplicaKind::refused);
  hello = copied.hello();
  hello.secret ^= 1;
  CHECK(copied.answer_to(hello) == ReplicaKind::refused);
  hello = copied.hello();
  hello.primary ^= 1;
  CHECK(copied.answer_to(hello) == ReplicaKind::refused);
  hello = copied.hello();
  hello.version = kProtocol + 1;
  CHECK(copied.answer_to(hello) == ReplicaKind::refused);
  CHECK(copied.shard().epoch == epoch);
  CHECK(copied.is_synced());
  copied.cluster.run();
  CHECK(copied.shard().epoch == epoch);
}

// An impostor that knows everything that the primary knows takes over the backup's copy.
TEST_CASE("roles: a backup that has lost its state gets it anew, in another epoch, and workers go on") {
  Copied copied;
  const std::uint64_t epoch = copied.shard().epoch;
  CHECK(copied.answer_to(copied.hello()) == ReplicaKind::welcome);
  while (copied.shard().epoch == epoch || !copied.is_synced()) copied.cluster.step();
  CHECK(copied.shard().backup != 0);
  CHECK_FALSE(copied.shard().fresh);
  copied.cluster.run();
  CHECK_FALSE(copied.cluster.is_lost());
  CHECK(copied.cluster.counts.decisions.lost == 0);
}
