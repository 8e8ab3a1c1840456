// A primary's end of the connection to its backup, which may be half-open: it stays, and nothing comes.
#include "server/replica_sender.h"

#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>

using namespace heddle;
using namespace heddle::kv_detail;
using namespace std::chrono_literals;

namespace {

class Backup : public Transport, public ShardOwner {
 public:
  std::string listen(const std::string& address) override { return address; }
  Peer connect(const std::string&) override { return 0; }
  void send(Peer, Message message) override {
    sent.push_back(decode_replica_message(message.head).kind);
    waiting += waits ? message.head.size() : 0;
  }
  std::size_t queued(Peer) const override { return waiting; }
  void close(Peer) override { ++closed; }
  void poll(std::chrono::microseconds) override {}
  void wake() noexcept override {}

  Transport& transport() override { return *this; }
  const ServerOptions& options() const override { return options_; }
  std::uint64_t incarnation() const override { return 1; }
  std::uint64_t secret() const override { return 2; }
  const std::shared_ptr<std::uint64_t>& memory_used() const override { return memory_used_; }
  Peer connect_to_backup(std::uint32_t, const std::string&) override { return ++connections; }
  void synced(std::uint32_t, std::uint64_t) override {}
  void backup_lost(std::uint32_t, std::uint64_t) override {}
  void log(ServerEvent::Level, const char* name, std::vector<std::pair<std::string, std::string>>) override {
    events.push_back(name);
  }

  std::vector<ReplicaKind> sent;
  std::vector<std::string> events;
  std::size_t waiting = 0;  // bytes
  bool waits = false;       // nothing goes out
  Peer connections = 0;
  int closed = 0;

 private:
  const ServerOptions options_{};
  const std::shared_ptr<std::uint64_t> memory_used_ = std::make_shared<std::uint64_t>(0);
};

struct Primary {
  Primary() {
    sender.set_backup(1, {.exists = true, .address = "a:1"}, now);
    sender.connected(now);
    answer(ReplicaKind::welcome);
    answer(ReplicaKind::applied);
  }
  void answer(ReplicaKind kind) { sender.received({.kind = kind, .epoch = 1}, now); }
  void pass(Clock::duration time) {
    for (const auto end = now + time; now < end;) sender.tick(now += 25ms);
  }

  Engine engine{{.scheduler = Scheduler::naive}};
  EngineScope scope{engine};
  Backup backup;
  ServerCore core{{}, 1};
  Clock::time_point now{1h};
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
  CHECK(primary.backup.events == std::vector<std::string>{"backup_lost"});
  primary.pass(2500ms);  // nor does the next connection come about
  CHECK(primary.backup.connections == 3);
  CHECK(primary.sender.is_synced());  // it may have all still
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
