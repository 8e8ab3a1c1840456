// A primary's connection to its backup. A connection may be half-open: it looks open, but nothing arrives.
#include "server/replica/replica_sender.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>

using namespace heddle;
using namespace heddle::kv_detail;
using namespace std::chrono_literals;

namespace {

constexpr Peer kWorker = 77;

class Backup : public Transport, public ShardOwner {
 public:
  std::string listen(const std::string& address) override { return address; }
  Peer connect(const std::string&) override { return 0; }
  void send(Peer peer, Message message) override {
    if (peer == kWorker) return void(++told);
    const ReplicaMessage decoded = decode_replica_message(message.head);
    sent.push_back(decoded.kind);
    if (decoded.kind == ReplicaKind::state_end) state_of = decoded.number;
    waiting += waits ? message.head.size() : 0;
  }
  std::size_t queued(Peer) const override { return waiting; }
  void close(Peer) override { ++closed; }
  void poll(std::chrono::microseconds) override {}
  void wake() noexcept override {}

  Transport& transport() override { return *this; }
  Latencies& latencies() override { return latencies_; }
  const ServerOptions& options() const override { return options_; }
  std::uint64_t incarnation() const override { return 1; }
  std::uint64_t secret() const override { return 2; }
  const std::shared_ptr<std::uint64_t>& memory_used() const override { return memory_used_; }
  Peer connect_to_backup(std::uint32_t, const std::string&) override { return ++connections; }
  void synced(std::uint32_t, std::uint64_t copy) override { reported.push_back(copy); }
  void backup_lost(std::uint32_t, std::uint64_t copy) override { lost.push_back(copy); }
  void log(ServerEvent::Level level, const char* name,
           std::vector<std::pair<std::string, std::string>>) override {
    events.push_back(name);
    alarms += level >= ServerEvent::Level::warning;
  }

  std::vector<ReplicaKind> sent;
  // Numbers of the copies that the sender has reported as complete and as lost.
  std::vector<std::uint64_t> reported, lost;
  int told = 0;  // number of replies that the primary has sent to the worker
  std::vector<std::string> events;
  int alarms = 0;                  // number of logged events that are warnings or worse
  std::uint64_t state_of = ~0ull;  // record number of the last complete state; all ones: there is none yet
  std::size_t waiting = 0;         // number of bytes queued on the connection
  bool waits = false;              // true: queued bytes are not sent
  Peer connections = 0;
  int closed = 0;

  ServerOptions options_{};

 private:
  Latencies latencies_;
  const std::shared_ptr<std::uint64_t> memory_used_ = std::make_shared<std::uint64_t>(0);
};

constexpr std::size_t kBytes = 1000;  // size of a key's value in bytes

struct Primary {
  explicit Primary(std::uint32_t keys = 0, std::uint64_t memory_limit = 0)
      : core({.memory_limit = memory_limit}, 1, backup.memory_used()) {
    backup.options_.keys_at_once = 1;
    core.connected(kWorker, "");
    const Hello hello{.job = "job", .consistency = "async", .incarnation = 5};
    if (keys > 0) core.received(kWorker, encode(hello), 0, now);
    for (std::uint32_t key = 0; key < keys; ++key)
      send({.kind = Kind::init, .has_value = true, .text = "key" + std::to_string(key)});
    core.take_outbox();
    sender.set_backup(1, {.exists = true, .address = "a:1"}, now);
    sender.connected(backup.connections);
    answer(ReplicaKind::welcome);
    if (keys == 0) answer(ReplicaKind::applied);
  }
  void answer(ReplicaKind kind, std::uint64_t number = 0) {
    sender.received(backup.connections, {.kind = kind, .epoch = 1, .number = number}, now);
  }
  // The primary receives a request with a value from the worker.
  void send(Request request) {
    request.number = ++requests;
    request.bytes = kBytes;
    const std::vector<std::byte> head = encode(request);
    const std::span<std::byte> memory = core.memory_for(kWorker, head, kBytes);
    if (!memory.empty()) std::memset(memory.data(), 1, kBytes);
    core.received(kWorker, head, kBytes, now);
  }
  // The worker pushes to the key. Returns the kind of the primary's reply.
  Kind push(std::uint32_t key) {
    send({.kind = Kind::push, .key = key, .clock = ++clocks[key]});
    Outbox outbox = core.take_outbox();
    const Kind kind = outbox.replies.at(0).reply.kind;
    if (kind == Kind::failed) --clocks[key];
    sender.take(outbox, now);
    return kind;
  }
  std::uint64_t used() const { return *backup.memory_used(); }
  void pass(Clock::duration time) {
    for (const auto end = now + time; now < end;) sender.tick(now += 25ms);
  }

  Engine engine{{.scheduler = Scheduler::naive}};
  EngineScope scope{engine};
  Backup backup;
  ServerCore core;
  Clock::time_point now{1h};
  std::uint64_t requests = 0;
  std::map<std::uint32_t, std::uint64_t> clocks{};
  ReplicaSender sender{backup, core, 0, 7};
};

}  // namespace

TEST_CASE("replica sender: a backup that says nothing is connected to anew") {
  Primary primary;
  CHECK(primary.sender.is_synced());
  for (int i = 0; i < 5; ++i) {
    primary.pass(1s);
    primary.answer(ReplicaKind::beat);
  }
  CHECK(primary.backup.closed == 0);
  primary.pass(1900ms);
  CHECK(primary.backup.closed == 0);
  primary.pass(300ms);
  CHECK(primary.backup.closed == 1);
  CHECK(primary.backup.connections == 2);
  CHECK(primary.backup.events.empty());
  primary.pass(2500ms);  // the second connection is not established either
  CHECK(primary.backup.events == std::vector<std::string>{"backup_lost"});
  CHECK(primary.backup.connections == 3);
  // The backup may still have everything, so its copy still counts as complete.
  CHECK(primary.sender.is_synced());
}

TEST_CASE("replica sender: the loss of a backup is an alarm while there is a job") {
  for (const std::uint32_t keys : {0, 1}) {
    Primary primary(keys);
    primary.sender.disconnected(primary.backup.connections, "it has ended", primary.now);
    CHECK(primary.backup.events.empty());
    primary.pass(1s);
    CHECK(primary.backup.events == std::vector<std::string>{"backup_lost"});
    CHECK(primary.backup.alarms == static_cast<int>(keys));
  }
}

TEST_CASE(
    "replica sender: a backup that left because it is wanted no longer is no loss, one that came back was "
    "one") {
  for (const bool wanted : {false, true}) {
    Primary primary(1);
    primary.sender.disconnected(primary.backup.connections, "it has ended", primary.now);
    primary.pass(500ms);
    CHECK(primary.backup.events.empty());
    if (!wanted) {
      primary.sender.set_backup(2, {}, primary.now);
    } else {
      primary.sender.connected(primary.backup.connections);
      primary.answer(ReplicaKind::welcome);
      CHECK(primary.backup.alarms == 1);
    }
    primary.pass(1500ms);
    CHECK(primary.backup.alarms == (wanted ? 1 : 0));
  }
}

TEST_CASE("replica sender: a backup that gets a large state is waited for, and so is one after a pause") {
  Primary primary;
  primary.backup.waits = true;
  primary.backup.waiting = 1 << 30;
  for (int i = 0; i < 100; ++i) {
    primary.pass(100ms);
    primary.backup.waiting -= 10'000;
  }
  CHECK(primary.backup.closed == 0);
  primary.sender.tick(primary.now += 1h);
  primary.answer(ReplicaKind::beat);
  primary.pass(1s);
  CHECK(primary.backup.closed == 0);
  primary.pass(2s);
  CHECK(primary.backup.closed == 1);
}

TEST_CASE(
    "replica sender: a state of many keys goes in pieces, and records of what changes meanwhile behind it") {
  Primary primary(4);
  const auto count = [&](ReplicaKind kind) {
    return std::count(primary.backup.sent.begin(), primary.backup.sent.end(), kind);
  };
  CHECK(primary.sender.has_more());
  CHECK(count(ReplicaKind::state_begin) == 1);
  const auto first = count(ReplicaKind::state);
  CHECK(primary.push(3) == Kind::done);
  CHECK(primary.push(0) == Kind::done);
  CHECK_THROWS_AS(primary.answer(ReplicaKind::applied), MalformedMessage);
  int pieces = 0;
  for (; primary.sender.has_more(); ++pieces) {
    CHECK(count(ReplicaKind::state_end) == 0);
    CHECK(count(ReplicaKind::record) == 0);
    primary.sender.go_on(primary.now);
  }
  CHECK(pieces >= 3);
  CHECK(count(ReplicaKind::state) > first);
  const std::vector<ReplicaKind>& sent = primary.backup.sent;
  const auto end = std::find(sent.begin(), sent.end(), ReplicaKind::state_end);
  CHECK(std::vector<ReplicaKind>(end, sent.end()) ==
        std::vector{ReplicaKind::state_end, ReplicaKind::record, ReplicaKind::record});
  CHECK(primary.backup.state_of == 0);
  primary.answer(ReplicaKind::applied, 0);
  CHECK_FALSE(primary.sender.is_synced());
  primary.answer(ReplicaKind::applied, 2);
  CHECK(primary.sender.is_synced());
}

TEST_CASE("replica sender: a slow backup gets no more of a state than it takes") {
  Primary primary(4);
  primary.backup.waiting = 1 << 30;
  const std::size_t before = primary.backup.sent.size();
  for (int i = 0; i < 10; ++i) primary.sender.go_on(primary.now);
  CHECK(primary.backup.sent.size() == before);
  primary.backup.waiting = 0;
  while (primary.sender.has_more()) primary.sender.go_on(primary.now);
  CHECK(primary.backup.sent.back() == ReplicaKind::state_end);
}

TEST_CASE("replica sender: what the backup has not confirmed counts for the memory limit") {
  Primary primary(1, 12 * kBytes);
  while (primary.sender.has_more()) primary.sender.go_on(primary.now);
  primary.answer(ReplicaKind::applied);
  REQUIRE(primary.sender.is_synced());
  const std::uint64_t before = primary.used();
  CHECK(primary.push(0) == Kind::done);
  CHECK(primary.used() > before + kBytes);
  std::uint64_t pushes = 1;
  for (; pushes < 20 && primary.push(0) == Kind::done; ++pushes) continue;
  CHECK(pushes > 5);
  CHECK(pushes < 12);  // the log of pushes that the backup has not applied reaches the memory limit
  primary.answer(ReplicaKind::applied, pushes);
  CHECK(primary.sender.log_bytes() == 0);
  CHECK(primary.used() == before);
  CHECK(primary.push(0) == Kind::done);
  primary.sender.set_backup(2, {}, primary.now);  // the sender no longer has a backup
  CHECK(primary.used() == before);
}

TEST_CASE(
    "replica sender: workers are told nothing before the backup has it, and a learner that is complete") {
  Primary primary(1);
  while (primary.sender.has_more()) primary.sender.go_on(primary.now);
  primary.answer(ReplicaKind::applied);
  REQUIRE(primary.sender.is_synced());
  const Peer backup = primary.backup.connections;
  primary.sender.set_learner(2, {.exists = true, .address = "b:1", .learner = true}, primary.now);
  const Peer learner = primary.backup.connections;
  REQUIRE(learner != backup);
  const auto answer = [&](Peer peer, ReplicaKind kind, std::uint64_t number = 0) {
    primary.sender.received(peer, {.kind = kind, .number = number}, primary.now);
  };
  const auto told = [&] {
    for (const Peer peer : {backup, learner})
      answer(peer, ReplicaKind::beat, static_cast<std::uint64_t>(primary.now.time_since_epoch().count()));
    return std::exchange(primary.backup.told, 0);
  };
  told();
  primary.sender.connected(learner);
  answer(learner, ReplicaKind::welcome);
  CHECK(primary.push(0) == Kind::done);
  CHECK(told() == 0);
  answer(backup, ReplicaKind::applied, 1);
  CHECK(told() == 1);  // the worker need not wait for the learner, whose copy is not complete yet
  while (primary.sender.has_more()) primary.sender.go_on(primary.now);
  answer(learner, ReplicaKind::applied, 0);
  answer(learner, ReplicaKind::applied, 1);
  CHECK(primary.backup.reported == std::vector<std::uint64_t>{1, 2});
  CHECK(primary.push(0) == Kind::done);
  answer(backup, ReplicaKind::applied, 2);
  CHECK(told() == 0);
  answer(learner, ReplicaKind::applied, 2);
  CHECK(told() == 1);
  CHECK(primary.sender.log_bytes() == 0);
  SUBCASE("it becomes the backup as it is") {
    const auto sent = primary.backup.sent.size();
    primary.sender.set_backup(2, {.exists = true, .address = "b:1"}, primary.now);
    CHECK(primary.sender.is_synced());
    CHECK(primary.sender.owns(learner));
    CHECK_FALSE(primary.sender.owns(backup));
    CHECK(primary.backup.sent.size() == sent);
    CHECK(primary.push(0) == Kind::done);
    answer(learner, ReplicaKind::applied, 3);
    CHECK(told() == 1);
  }
  SUBCASE("its connection ends: another copy is to be made") {
    primary.sender.disconnected(learner, "cut", primary.now);
    CHECK(primary.backup.lost == std::vector<std::uint64_t>{2});
    CHECK(primary.push(0) == Kind::done);
    answer(backup, ReplicaKind::applied, 3);
    CHECK(told() == 0);
    primary.sender.set_learner(0, {}, primary.now);
    CHECK(told() == 1);
    CHECK(primary.sender.is_synced());
  }
}
