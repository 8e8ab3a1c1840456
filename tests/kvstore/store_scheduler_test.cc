// A scheduler, servers and workers as threads of this process, over real connections.
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/ops.h>
#include <heddle/store_scheduler.h>

#include "arguments.h"
#include "dist_job.h"
#include "files.h"
#include "membership/etcd_finder.h"
#include "message_of.h"

using namespace heddle;
using namespace heddle::test;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class RunningScheduler {
 public:
  explicit RunningScheduler(StoreSchedulerOptions options)
      : scheduler(std::move(options)), thread_([this] { scheduler.run(); }) {}
  ~RunningScheduler() {
    scheduler.stop();
    thread_.join();
  }
  StoreScheduler scheduler;

 private:
  std::thread thread_;
};

std::unique_ptr<Running> start_server(const std::string& scheduler, const std::string& transport,
                                      int replicas = 1) {
  return std::make_unique<Running>(ServerOptions{
      .transport = transport, .number = -1, .servers = 0, .scheduler = scheduler, .replicas = replicas});
}

// Runs `body` with a worker's store. The scheduler gives the worker its rank.
void run_worker(const std::string& scheduler, const std::string& transport,
                const std::function<void(KVStore&)>& body) {
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  kv_detail::ClientOptions options;
  options.scheduler = scheduler;
  options.rank = -1;
  options.workers = 0;
  options.transport.kind = transport;
  DistStore store("dist_sync", options);
  body(store);
}

// Runs a server until it ends by itself. Returns the reason for the end.
std::string end_of(const ServerOptions& options) {
  Server server(options);
  return message_of<StoreError>([&] { server.run(); });
}

template <class Condition> void wait_until(Condition&& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::yield();
  }
}

}  // namespace

TEST_CASE("store scheduler: workers find servers, and a server that ends hands its part to its backup") {
  for (const char* const transport : kTransports) {
    CAPTURE(std::string(transport));
    RunningScheduler running({.transport = transport, .servers = 2, .workers = 2});
    const std::string address = running.scheduler.address();
    Servers servers;
    for (int i = 0; i < 2; ++i) servers.push_back(start_server(address, transport, 2));
    constexpr int kRounds = 30;
    std::atomic<int> ranks{0}, half{0};
    std::atomic<bool> ended{false};
    const auto work = [&] {
      run_worker(address, transport, [&](KVStore& store) {
        ranks += store.rank() + 1;
        store.set_optimizer("add");
        store.init(0, zeros({300'000}, DType::i64));  // split over both servers
        NDArray out({300'000}, DType::i64);
        for (int round = 1; round <= kRounds; ++round) {
          store.push(0, full({300'000}, store.rank() + 1, DType::i64));
          store.pull(0, out);
          CHECK(out.to_vector<std::int64_t>() == std::vector<std::int64_t>(300'000, 3 * round));
          // The remaining server is the primary of both shards, and lists each worker once.
          if (round == kRounds) {
            const ServerStats stats = servers[0]->server.stats();
            CHECK(stats.jobs == 1);
            CHECK(stats.workers.size() == 2);
          }
          if (round != kRounds / 2) continue;
          ++half;
          wait_until([&] { return ended.load(); });
        }
      });
    };
    std::thread first(work), second(work);
    wait_until([&] { return half == 2; });
    wait_until([&] {
      const StoreSchedulerStats stats = running.scheduler.stats();
      return stats.shards.size() == 2 && stats.shards[0].synced && stats.shards[1].synced;
    });
    servers.erase(servers.begin());
    ended = true;
    first.join();
    second.join();
    CHECK(ranks == 3);  // each worker has added its rank plus 1; the ranks are 0 and 1
    const StoreSchedulerStats stats = running.scheduler.stats();
    CHECK(stats.begun);
    CHECK(stats.failovers == 1);
    CHECK(stats.lost == 0);
  }
}

// The program kv_scale does the same as this test with a million keys.
TEST_CASE("store scheduler: many keys with an optimizer go to a backup, to a new server, and to snapshots") {
  const TemporaryDirectory folder;
  RunningScheduler running({.servers = 2, .workers = 1});
  const std::string address = running.scheduler.address();
  const auto start = [&] {
    ServerOptions options{.number = -1, .servers = 0, .scheduler = address, .replicas = 2};
    options.snapshots = folder.file("snapshots");
    options.snapshot_interval = std::chrono::milliseconds(50);
    return std::make_unique<Running>(std::move(options));
  };
  Servers servers;
  for (int i = 0; i < 2; ++i) servers.push_back(start());
  const auto has_copies = [&] {
    const StoreSchedulerStats stats = running.scheduler.stats();
    return stats.shards.size() == 2 && stats.shards[0].synced && stats.shards[1].synced;
  };
  run_worker(address, "net", [&](KVStore& store) {
    constexpr std::size_t kKeys = kSanitized ? 300 : 3000;
    std::vector<Key> keys;
    for (std::size_t i = 0; i < kKeys; ++i) keys.emplace_back(static_cast<Key>(static_cast<std::int64_t>(i)));
    store.set_optimizer("sgd", {{"lr", 0.5}, {"momentum", 0.5}});
    for (const Key& key : keys) store.init(key, zeros({3}));
    float value = 0, velocity = 0;
    const std::vector<NDArray> ones(kKeys, full({3}, 1));
    const auto step = [&] {
      store.push(keys, ones);
      velocity = 0.5f * velocity + 1;
      value -= 0.5f * velocity;
      std::vector<NDArray> out;
      for (std::size_t i = 0; i < kKeys; ++i) out.emplace_back(Shape{3}, DType::f32);
      store.pull(keys, out);
      for (const NDArray& one : out) REQUIRE(one.to_vector<float>() == std::vector<float>(3, value));
    };
    step();
    wait_until(has_copies);
    servers.erase(servers.begin());
    step();  // a step with the former backup, which has the optimizer's state
    CHECK(servers[0]->server.stats().keys == kKeys);
    servers.push_back(start());
    step();  // a step while the backup's state is sent to the new server
    wait_until(has_copies);
    servers.erase(servers.begin());
    step();
    const std::uint64_t written = servers[0]->server.stats().snapshots.written;
    wait_until([&] { return servers[0]->server.stats().snapshots.written > written || written > 2; });
    step();
  });
  CHECK(running.scheduler.stats().lost == 0);
}

TEST_CASE("store scheduler: what it has decided is in its file, and survives it") {
  const TemporaryDirectory folder;
  StoreSchedulerOptions options{.servers = 1, .state_file = folder.file("state")};
  std::uint64_t version = 0;
  std::unique_ptr<Running> server;
  {
    RunningScheduler running(options);
    options.listen = running.scheduler.address();
    server = start_server(options.listen, "net");
    wait_until([&] { return running.scheduler.stats().begun; });
    version = running.scheduler.stats().version;
  }
  RunningScheduler again(options);
  CHECK(again.scheduler.stats().version == version);
  run_worker(options.listen, "net", [](KVStore& store) { CHECK(store.workers() == 1); });
  wait_until([&] { return again.scheduler.stats().servers_here == 1; });
  CHECK(again.scheduler.stats().shards[0].epoch == 1);
}

TEST_CASE("store scheduler: options that cannot be are refused, and so is a scheduler that is not there") {
  CHECK(message_of<InvalidArgument>([] { StoreScheduler({.servers = 0}); }) ==
        "StoreScheduler: servers is 0, want 1 to 256");
  CHECK_THROWS_AS(StoreScheduler({.workers = -1}), InvalidArgument);
  CHECK_THROWS_AS(StoreScheduler({.grace = std::chrono::seconds(9)}), InvalidArgument);
  CHECK_THROWS_AS(StoreScheduler({.start_timeout = std::chrono::milliseconds(0)}), InvalidArgument);
  CHECK_THROWS_AS(StoreScheduler({.listen = "nowhere"}), InvalidArgument);
  CHECK_THROWS_AS(Server({.replicas = 2}), InvalidArgument);
  CHECK_THROWS_AS(Server({.number = -1}), InvalidArgument);
  CHECK_THROWS_AS(Server({.advertise = "nowhere"}), InvalidArgument);
  const EtcdOptions etcd{.urls = "http://127.0.0.1:1"};
  CHECK_THROWS_AS(StoreScheduler({.etcd = {.urls = "http://127.0.0.1"}}), InvalidArgument);
  CHECK_THROWS_AS(StoreScheduler({.state_file = "state", .etcd = etcd}), InvalidArgument);
  CHECK_THROWS_AS(StoreScheduler({.etcd = etcd, .once = true}), InvalidArgument);
  CHECK_THROWS_AS(Server({.scheduler = "127.0.0.1:1", .etcd = etcd}), InvalidArgument);
  kv_detail::EtcdFinder finder(etcd);
  finder.look();
  wait_until([&] { return finder.answer().has_value(); });
  CHECK(finder.answer()->address == "");
  CHECK(finder.answer()->why.find("etcd http://127.0.0.1:1: ") == 0);
  kv_detail::ClientOptions options;
  options.scheduler = "127.0.0.1:1";
  options.timeout = std::chrono::milliseconds(50);
  const std::string why = message_of<StoreError>([&] { kv_detail::Client client(options); });
  CHECK(why.find("the scheduler 127.0.0.1:1: ") == 0);
  CHECK(why.find("Is the scheduler running?") != std::string::npos);
}

TEST_CASE("a server that can never connect to its scheduler ends at once") {
  const TemporaryDirectory empty;
  for (const std::string transport : {"net", "zmq"}) {
    CAPTURE(transport);
    for (const auto& [address, why] :
         {std::pair("192.0.2.1:1", "heddle keygen"), std::pair("[fe80::1%none]:1", "is no host")}) {
      const std::string text = end_of({.transport = transport,
                                       .keys = empty.path.string(),
                                       .number = -1,
                                       .servers = 0,
                                       .scheduler = address});
      CHECK(holds(text, why));
    }
  }
}
