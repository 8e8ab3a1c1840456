// How long requests take on a server, split into the server's part and the wait for other workers.
#include "server/latencies.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>

#include "core_host.h"
#include "dist_job.h"
#include "server/server_node.h"

using namespace heddle;
using namespace heddle::kv_detail;
using namespace std::chrono_literals;

namespace {

constexpr Peer kBackup = 99;

// A transport that only records the messages sent.
class Sent final : public Transport {
 public:
  std::string listen(const std::string&) override { return ""; }
  Peer connect(const std::string&) override { return kBackup; }
  void send(Peer peer, Message message) override { all.emplace_back(peer, std::move(message.head)); }
  std::size_t queued(Peer) const override { return 0; }
  void close(Peer) override {}
  void poll(std::chrono::microseconds) override {}
  void wake() noexcept override {}

  std::vector<std::pair<Peer, Bytes>> all;
};

// A server with a clock that the test sets. Worker 0 is peer 1, worker 1 is peer 2.
struct TimedServer {
  Engine engine{{.scheduler = Scheduler::naive}};
  EngineScope scope{engine};
  Sent sent;
  Clock::time_point now{1h};
  ServerNode node;

  explicit TimedServer(const ServerOptions& options = {}) : node(options, 42, sent, now) {}
  void join(std::uint32_t workers, std::uint32_t servers = 1) {
    for (std::uint32_t rank = 0; rank < workers; ++rank) {
      Hello hello = hello_of(rank, workers, "sync");
      hello.servers = servers;
      node.connected(rank + 1, "", now);
      node.received(rank + 1, encode(hello), {}, now);
    }
  }
  // The server receives a message from worker `rank`, `later` after the last event.
  void receive(Clock::duration later, std::uint32_t rank, Request request, const Bytes& payload = {}) {
    now += later;
    request.number = ++numbers[rank];
    if (!payload.empty()) request.bytes = payload.size();
    const Bytes head = encode(request);
    std::span<std::byte> memory;
    if (!payload.empty()) {
      memory = node.memory_for(rank + 1, head, payload.size());
      REQUIRE(memory.size() == payload.size());
      std::memcpy(memory.data(), payload.data(), payload.size());
    }
    node.received(rank + 1, head, memory, now);
  }
  void end_batch(Clock::duration later) { node.end_batch(now += later); }
  // Each worker inits key 0, which has one element.
  void init(std::uint32_t workers) {
    receive(1s, 0, {.kind = Kind::init, .has_value = true, .text = "k"}, bytes_of<float>({0}));
    if (workers > 1) receive(0s, 1, {.kind = Kind::init, .bytes = 4, .text = "k"});
    end_batch(0s);
  }
  void push(Clock::duration later, std::uint32_t rank) {
    receive(later, rank, {.kind = Kind::push, .clock = ++clocks[rank]}, bytes_of<float>({1}));
  }
  RequestStats of(const std::string& kind) const {
    const auto all = node.stats(now).requests;
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const RequestStats& one) { return one.kind == kind; });
    REQUIRE(found != all.end());
    return *found;
  }
  // The sums of the times of all requests of that kind, in milliseconds: the server's part, and the wait for
  // other workers.
  std::pair<double, double> milliseconds(const std::string& kind) const {
    const RequestStats one = of(kind);
    CHECK(one.server.count() == one.total.count());
    CHECK(one.workers.count() == one.total.count());
    CHECK(one.total.seconds == doctest::Approx(one.server.seconds + one.workers.seconds));
    return {one.server.seconds * 1e3, one.workers.seconds * 1e3};
  }
  std::uint64_t numbers[2] = {0, 0}, clocks[2] = {0, 0};
};

std::uint64_t counted(const LatencyHistogram& histogram, double bound) {
  const auto& bounds = LatencyHistogram::kBounds;
  const auto found = std::lower_bound(bounds.begin(), bounds.end(), bound * 0.999);
  return histogram.counts[static_cast<std::size_t>(found - bounds.begin())];
}

}  // namespace

TEST_CASE("latencies: a pull waits for the other worker's push, and that is not the server's time") {
  TimedServer server;
  server.join(2);
  server.init(2);
  server.push(10ms, 0);
  server.end_batch(200us);
  CHECK(server.of("push").server.seconds == doctest::Approx(200e-6));
  server.receive(10ms, 0, {.kind = Kind::pull, .clock = 1});
  server.end_batch(100us);
  CHECK(server.of("pull").total.count() == 0);  // the pull waits: worker 1 has not pushed in this round yet
  server.push(60ms - 100us, 1);
  server.end_batch(1ms);
  CHECK(server.milliseconds("pull").first == doctest::Approx(1));
  CHECK(server.milliseconds("pull").second == doctest::Approx(60));
  CHECK(server.milliseconds("push").first == doctest::Approx(1.2));
  CHECK(server.milliseconds("push").second == 0);
  CHECK(counted(server.of("pull").total, 100e-3) == 1);
  CHECK(counted(server.of("pull").server, 1e-3) == 1);
  CHECK(counted(server.of("pull").workers, 100e-3) == 1);
  CHECK(counted(server.of("push").workers, 50e-6) == 2);
  CHECK(server.of("init").total.count() == 2);
  CHECK(server.of("state").total.count() == 0);
}

TEST_CASE("latencies: a worker that comes late to a barrier is what the other one waits for") {
  TimedServer server;
  server.join(2);
  server.receive(0s, 0, {.kind = Kind::barrier});
  server.end_batch(0s);
  server.receive(3s, 1, {.kind = Kind::barrier});
  server.end_batch(2ms);
  CHECK(server.of("collective").total.count() == 2);
  CHECK(server.milliseconds("collective").first == doctest::Approx(4));
  CHECK(server.milliseconds("collective").second == doctest::Approx(3000));
}

TEST_CASE("latencies: what a message waits for those before it is the server's time") {
  TimedServer server;
  server.join(2);
  server.init(2);
  server.push(1s, 0);
  server.push(3ms, 1);  // received in the same batch as worker 0's push
  server.receive(2ms, 0, {.kind = Kind::pull, .clock = 1});
  server.end_batch(1ms);
  CHECK(server.milliseconds("push").first == doctest::Approx(3 + 5));
  CHECK(server.milliseconds("pull").first == doctest::Approx(6));
  CHECK(server.milliseconds("pull").second == 0);
  // Begins another batch, in which earlier messages do not count.
  server.receive(1s, 0, {.kind = Kind::pull, .clock = 1});
  server.end_batch(1ms);
  CHECK(server.milliseconds("pull").first == doctest::Approx(7));
}

TEST_CASE("latencies: an answer that waits for the backup is the server's time") {
  TimedServer server({.number = 0, .servers = 2, .scheduler = "127.0.0.1:1"});
  Views views{.version = 1, .servers = {{0, 42, "a:1"}, {1, 43, "b:1"}}, .shards = {{}, {}}};
  views.shards[0] = {.epoch = 1, .primary = 42, .backup = 43, .fresh = true};
  server.node.set_views(views, server.now);
  server.join(1, 2);
  server.init(1);
  server.node.connected(kBackup, "", server.now);
  std::uint64_t record = 0, log = 0, copy = 0;
  const auto look = [&] {
    for (const auto& [peer, head] : server.sent.all) {
      if (peer != kBackup) continue;
      const ReplicaMessage message = decode_replica_message(head);
      log = message.log, copy = message.epoch;
      if (message.kind == ReplicaKind::state_end || message.kind == ReplicaKind::record)
        record = std::max(record, message.number);
    }
  };
  const auto backup_says = [&](ReplicaKind kind, std::uint64_t number) {
    server.node.received(kBackup,
                         encode(ReplicaMessage{.kind = kind, .epoch = copy, .log = log, .number = number}),
                         {}, server.now);
  };
  const auto is_alive = [&] {
    backup_says(ReplicaKind::beat, static_cast<std::uint64_t>(server.now.time_since_epoch().count()));
  };
  look();
  backup_says(ReplicaKind::welcome, 0);
  look();
  backup_says(ReplicaKind::applied, record);
  is_alive();
  server.end_batch(0s);
  const auto before = server.milliseconds("push").first;
  server.push(10ms, 0);
  server.end_batch(1ms);
  look();
  CHECK(server.of("push").total.count() == 0);
  server.now += 30ms;
  is_alive();
  backup_says(ReplicaKind::applied, record);
  server.end_batch(1ms);
  CHECK(server.of("push").total.count() == 1);
  CHECK(server.milliseconds("push").first - before == doctest::Approx(32));
  CHECK(server.milliseconds("push").second == 0);
}

TEST_CASE("latencies: workers that are dropped release those that wait, which have waited until then") {
  TimedServer server({.worker_timeout = 5s});
  server.join(2);
  server.init(2);
  server.push(0s, 0);
  server.receive(0s, 0, {.kind = Kind::pull, .clock = 1});
  server.end_batch(0s);
  server.receive(4s, 0, {.kind = Kind::ping});
  server.end_batch(0s);
  server.node.tick(server.now += 2s);  // worker 1 has been silent for 6 s, longer than the server waits
  server.node.count_answers();
  CHECK(server.of("pull").total.count() == 1);
  CHECK(server.milliseconds("pull").second == doctest::Approx(6000));
}

TEST_CASE("latencies: quantiles lie in the bucket of the request, and end at the last bound") {
  LatencyHistogram some;
  CHECK(some.quantile(0.5) == 0);
  some.counts[0] = 98;
  some.counts[4] = 2;  // requests that took 0.5 to 1 ms
  CHECK(some.quantile(0.5) == doctest::Approx(50e-6 * 50 / 98));
  CHECK(some.quantile(0.99) == doctest::Approx(0.75e-3));
  CHECK(some.quantile(1) == doctest::Approx(1e-3));
  some.counts.back() = 900;
  CHECK(some.quantile(0.99) == 60);
  CHECK(some.count() == 1000);
}

TEST_CASE("latencies: a server counts each request that it has answered") {
  for (const char* const transport : heddle::test::kTransports) {
    CAPTURE(std::string(transport));
    const heddle::test::Job job{.transport = transport};
    heddle::test::Servers servers;
    servers.push_back(std::make_unique<heddle::test::Running>(ServerOptions{.transport = transport}));
    heddle::test::run_workers(job, servers, [](KVStore& store) {
      store.init("k", full({4}, 0.0));
      for (int step = 0; step < 3; ++step) {
        NDArray out = full({4}, 0.0);
        store.push("k", full({4}, 1.0));
        store.pull("k", out);
        out.wait();
      }
    });
    const ServerStats stats = servers[0]->server.stats();
    for (const RequestStats& one : stats.requests) {
      CAPTURE(one.kind);
      if (one.kind == "push") CHECK(one.total.count() == stats.pushes);
      if (one.kind == "pull") CHECK(one.total.count() == stats.pulls);
      if (one.kind == "push" || one.kind == "pull") CHECK(one.total.seconds > 0);
    }
  }
}
