// Jobs whose processes have different versions: workers and servers, a server and its backup, processes and
// the scheduler.
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/store_scheduler.h>

#include "arguments.h"
#include "dist_job.h"
#include "message_of.h"
#include "server/state/state_stream.h"
#include "simulation/cluster.h"
#include "simulation/plan.h"
#include "wire/replication.h"

using namespace heddle;
using namespace heddle::test;
using kv_detail::kOldestProtocol;
using kv_detail::kProtocol;

namespace {

constexpr int kOlder = kProtocol - 1;

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

template <class Condition> void wait_until(Condition&& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::yield();
  }
}

// A server that answers with a protocol version which the worker has not offered.
class OddServer final : kv_detail::Receiver {
 public:
  OddServer() : transport_(kv_detail::make_transport({}, *this)), address(transport_->listen("127.0.0.1:0")) {
    thread_ = std::thread([this] {
      while (!stopping_.load()) transport_->poll(std::chrono::milliseconds(10));
    });
  }
  ~OddServer() override {
    stopping_.store(true);
    transport_->wake();
    thread_.join();
  }

 private:
  void connected(kv_detail::Peer, const std::string&) override {}
  void disconnected(kv_detail::Peer, const std::string&) override {}
  std::span<std::byte> memory_for(kv_detail::Peer, std::span<const std::byte>, std::size_t) override {
    return {};
  }
  void received(kv_detail::Peer peer, std::span<const std::byte>, std::span<std::byte>) override {
    transport_->send(peer, {encode(kv_detail::Welcome{.protocol = 9, .incarnation = 1})});
  }
  std::unique_ptr<kv_detail::Transport> transport_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;

 public:
  const std::string address;
};

}  // namespace

TEST_CASE("upgrade: the version is the newest that both sides speak") {
  using kv_detail::common_version;
  CHECK(common_version({1, 2}, {1, 2}) == 2);
  CHECK(common_version({1, 2}, {1, 1}) == 1);
  CHECK(common_version({2, 3}, {1, 2}) == 2);
  CHECK(common_version({3, 4}, {1, 2}) == 0);
  CHECK(common_version({1, 1}, {2, 3}) == 0);
  CHECK(kv_detail::versions_up_to(0).newest == kProtocol);
  CHECK_THROWS_WITH_AS(Server({.protocol = 9}), "protocol is 9, want 1 to 4, or 0 for the newest",
                       InvalidArgument);
  CHECK_THROWS_AS(StoreScheduler({.protocol = -1}), InvalidArgument);
}

TEST_CASE("upgrade: workers and servers of a version and the one before have exact sums") {
  for (const char* const transport : kTransports) {
    for (const auto& [worker, server] :
         {std::pair(kOlder, 0), std::pair(0, kOlder), std::pair(kOlder, kOlder)}) {
      CAPTURE(std::string(transport));
      CAPTURE(worker);
      CAPTURE(server);
      const Job job{
          .servers = 2, .transport = transport, .worker_protocol = worker, .server_protocol = server};
      run_job(job, [](KVStore& store) {
        store.set_optimizer("add");
        store.init(0, zeros({300'000}, DType::i64));  // split over both servers
        NDArray out({300'000}, DType::i64);
        for (int round = 1; round <= 5; ++round) {
          store.push(0, full({300'000}, store.rank() + 1, DType::i64));
          store.pull(0, out);
          CHECK(out.to_vector<std::int64_t>() == std::vector<std::int64_t>(300'000, 3 * round));
        }
      });
    }
  }
}

TEST_CASE("upgrade: a server that answers in a version which the worker does not speak is not used") {
  const OddServer odd;
  kv_detail::ClientOptions options;
  options.servers = {odd.address};
  kv_detail::Client client(options);
  CHECK(message_of<StoreError>([&] {
          client.call(0, {.request = {.kind = kv_detail::Kind::barrier}});
        }).ends_with("it speaks version 9 of the protocol, this worker 1 to 4"));
}

// Two servers are backups of each other's shards. One ends, and the other continues with its copies.
TEST_CASE("upgrade: a server of a version takes over what one of the other version had") {
  struct Mix {
    int scheduler, ends, stays, worker;
  };
  for (const char* const transport : kTransports) {
    for (const Mix& mix : {Mix{0, 0, kOlder, 0}, Mix{0, kOlder, 0, kOlder}, Mix{kOlder, 0, kOlder, 0},
                           Mix{0, kOldestProtocol, 0, 0}}) {
      CAPTURE(std::string(transport));
      CAPTURE(mix.scheduler);
      CAPTURE(mix.ends);
      RunningScheduler running(
          {.transport = transport, .servers = 2, .workers = 1, .protocol = mix.scheduler});
      const std::string address = running.scheduler.address();
      Servers servers;
      for (const int number : {0, 1})
        servers.push_back(
            std::make_unique<Running>(ServerOptions{.transport = transport,
                                                    .number = number,
                                                    .servers = 2,
                                                    .scheduler = address,
                                                    .protocol = number == 0 ? mix.ends : mix.stays}));
      Engine engine({.workers = 2});
      const EngineScope scope(engine);
      kv_detail::ClientOptions options;
      options.scheduler = address;
      options.transport.kind = transport;
      options.versions = kv_detail::versions_up_to(mix.worker);
      DistStore store("dist_sync", options);
      store.set_optimizer("add");
      store.init(0, zeros({300'000}, DType::i64));
      NDArray out({300'000}, DType::i64);
      constexpr int kRounds = 6;
      for (int round = 1; round <= kRounds; ++round) {
        if (round == kRounds / 2) {
          wait_until([&] {
            const StoreSchedulerStats stats = running.scheduler.stats();
            return stats.shards.size() == 2 && stats.shards[0].synced && stats.shards[1].synced;
          });
          servers.erase(servers.begin());
        }
        store.push(0, full({300'000}, 1, DType::i64));
        store.pull(0, out);
        CHECK(out.to_vector<std::int64_t>() == std::vector<std::int64_t>(300'000, round));
      }
      CHECK(running.scheduler.stats().failovers == 1);
      CHECK(running.scheduler.stats().lost == 0);
    }
  }
}

TEST_CASE("upgrade: pushes count once while processes of two versions die and come back in another version") {
  using namespace kv_detail::sim;
  const auto programs = argument("programs", kSanitized ? 5 : 120), first = argument("seed", 0);
  int failovers = 0, lost = 0;
  for (long long seed = first; seed < first + programs; ++seed) {
    CAPTURE(seed);
    Plan plan = random_plan(static_cast<std::uint64_t>(seed));
    plan.mixed_versions = true;
    Cluster cluster(plan, static_cast<std::uint64_t>(seed));
    cluster.run();
    if (plan.one_fault_at_a_time) lost += cluster.counts.decisions.lost;
    failovers += cluster.counts.decisions.failovers;
  }
  CHECK(lost == 0);
  if (programs >= 50) CHECK(failovers > 0);
}

TEST_CASE("upgrade: what servers say to each other is that of the version of the other one") {
  using namespace kv_detail;
  const ReplicaMessage hello{
      .shard = 3, .epoch = 4, .log = 5, .version = kProtocol, .primary = 6, .secret = 7};
  const ReplicaMessage same = decode_replica_message(encode(hello));
  CHECK(same.version == kProtocol);
  CHECK(same.primary == 6);
  CHECK(same.secret == 7);
  ReplicaMessage old = hello;
  old.version = 1;
  CHECK(encode(old).size() == 1 + 4 + 3 * 8);  // the size of a hello of version 1
  CHECK(decode_replica_message(encode(old)).version == 1);
  std::vector<std::byte> bytes = encode(hello);
  CHECK_THROWS_AS(decode_replica_message(std::span(bytes).first(bytes.size() - 1)), MalformedMessage);
  // Changes the version to 1, in which the message would have fewer bytes.
  bytes[bytes.size() - 18] = std::byte{1};
  CHECK_THROWS_AS(decode_replica_message(bytes), MalformedMessage);
  const StateWorker worker{.greeted = true, .pushes = 8, .state_set = 9};
  CHECK(std::get<StateWorker>(decode_state_record(encode(worker))).state_set == 9);
  CHECK(std::get<StateWorker>(decode_state_record(encode(worker, 1), 1)).pushes == 8);
  CHECK(std::get<StateWorker>(decode_state_record(encode(worker, 2), 2)).state_set == 9);
  CHECK_THROWS_AS(decode_state_record(encode(worker), 1), MalformedMessage);
  const StateJob job{.name = "j", .consistency = "sync", .rule = "", .weights = 7, .settings = 5};
  CHECK(std::get<StateJob>(decode_state_record(encode(job))).settings == 5);
  CHECK(std::get<StateJob>(decode_state_record(encode(job, 2), 2)).weights == 7);
  CHECK(std::get<StateJob>(decode_state_record(encode(job))).weights == 7);
  CHECK(std::get<StateJob>(decode_state_record(encode(job, 1), 1)).name == "j");
}
