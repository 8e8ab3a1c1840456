// A scheduler, servers with backups and workers on a simulated network: processes die, pause, are partitioned
// and come back. Every acknowledged push counts once, and no two primaries of a shard answer at the same
// time.
#include <chrono>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "arguments.h"
#include "simulation/cluster.h"
#include "simulation/plan.h"

using namespace heddle;
using namespace heddle::kv_detail;
using namespace heddle::kv_detail::sim;
using namespace std::chrono_literals;

namespace {

struct Total {
  int programs = 0, kills = 0, schedulers = 0, servers = 0, workers = 0, failovers = 0, returned = 0,
      lost = 0;
  int silences = 0, decided_lost = 0;
  double seconds = 0;  // duration of the programs in simulated seconds

  void add(const Cluster& cluster) {
    const Cluster::Counts& counts = cluster.counts;
    ++programs;
    kills += counts.kills();
    schedulers += counts.killed_schedulers;
    servers += counts.killed_servers;
    workers += counts.killed_workers;
    silences += counts.pauses + counts.cut_off + counts.separated;
    failovers += counts.decisions.failovers;
    returned += counts.decisions.returned;
    lost += cluster.is_lost();
    decided_lost += counts.decisions.lost;
    seconds += std::chrono::duration<double>(cluster.now().time_since_epoch()).count();
  }
  std::string text() const {
    return std::to_string(programs) + " programs, " + std::to_string(static_cast<long long>(seconds)) +
           " s; killed " + std::to_string(schedulers) + " schedulers, " + std::to_string(servers) +
           " servers, " + std::to_string(workers) + " workers; " + std::to_string(silences) + " silences; " +
           std::to_string(failovers) + " failovers, " + std::to_string(returned) + " handed back; " +
           std::to_string(lost) + " programs have lost a shard";
  }
};

}  // namespace

// In programs with even seeds a fault begins only after the one before is repaired.
TEST_CASE("replication: every acknowledged push counts once, whatever dies, is silent or is cut off") {
  const auto programs = test::argument("programs", test::kSanitized ? 12 : 800);
  const auto first = test::argument("seed", 0);
  Total of_single_faults, of_any_faults;
  for (long long seed = first; seed < first + programs; ++seed) {
    CAPTURE(seed);
    Plan plan = random_plan(static_cast<std::uint64_t>(seed));
    plan.trace = test::argument("trace", 0) != 0;
    Cluster cluster(plan, static_cast<std::uint64_t>(seed));
    cluster.run();
    if (plan.one_fault_at_a_time) CHECK(cluster.counts.decisions.lost == 0);
    (plan.one_fault_at_a_time ? of_single_faults : of_any_faults).add(cluster);
  }
  MESSAGE("one fault at a time: " << of_single_faults.text());
  MESSAGE("any faults: " << of_any_faults.text());
  if (programs < 100) return;
  for (const Total* total : {&of_single_faults, &of_any_faults})
    CHECK((total->kills > 0 && total->failovers > 0 && total->returned > 0));
  CHECK(of_any_faults.lost > 0);
}

TEST_CASE("replication: a seed always gives the same program") {
  for (std::uint64_t seed = 0; seed < (test::kSanitized ? 2 : 10); ++seed) {
    CAPTURE(seed);
    Cluster one(random_plan(seed), seed), other(random_plan(seed), seed);
    one.run();
    other.run();
    CHECK(one.now() == other.now());
    CHECK(one.messages() == other.messages());
  }
}

// The primary, server 0, is partitioned from the scheduler and goes on serving its worker. Its shard is
// created anew on server 1. When server 1 is lost too, the shard is created anew on server 0, which has never
// heard of server 1's turn.
TEST_CASE("replication: a primary whose shard has begun anew elsewhere does not go on with what it had") {
  Plan plan{.servers = 2, .workers = 1, .replicas = 1, .rounds = 900, .consistency = "async"};
  plan.keys = {{.shard = 0}};
  plan.groups = {{0}};
  plan.most_pause = 50ms;
  plan.lost_after = 100ms;
  Cluster cluster(plan, 1);
  const auto shard = [&] { return cluster.decided().views.shards[0]; };
  cluster.pass(1s);
  const std::uint64_t first = cluster.server(0).node().incarnation();
  const std::string address = cluster.address_of(0);
  REQUIRE(shard() == ShardView{.epoch = 1, .primary = first, .fresh = true});
  cluster.network().separate(address, "Scheduler", 8s);
  cluster.network().separate("w0", "Scheduler", 30s);
  cluster.pass(5s);
  REQUIRE(shard() == ShardView{.epoch = 2, .primary = cluster.server(1).node().incarnation(), .fresh = true});
  cluster.kill_server(1, 30s);
  cluster.pass(1s);
  REQUIRE(cluster.scheduler().stats().servers_here == 0);
  while (cluster.scheduler().stats().servers_here == 0) cluster.step();
  cluster.network().pause(address, 400ms);
  cluster.pass(200ms);
  REQUIRE(shard() == ShardView{.epoch = 3, .primary = first, .fresh = true});
  cluster.network().cut(address, "Scheduler");
  CHECK(cluster.server(0).node().shard(0).epoch() == 1);
  cluster.pass(1s);
  CHECK(cluster.server(0).node().shard(0).epoch() == 3);
  CHECK(cluster.server(0).node().stats(cluster.now()).keys == 0);
  CHECK(cluster.worker(0).has_lost());
}

// A restarted server gets its shard back from the other server, but dies before any state has reached it.
TEST_CASE("replication: a primary that hands its shard over has the state until there is a newer one") {
  Plan plan{.servers = 2, .workers = 1, .replicas = 2, .rounds = 900, .consistency = "async"};
  plan.keys = {{.shard = 0}};
  plan.groups = {{0}};
  plan.most_pause = 50ms;
  Cluster cluster(plan, 1);
  const auto shard = [&] { return cluster.decided().views.shards[0]; };
  cluster.pass(1s);
  REQUIRE(shard().primary == cluster.server(0).node().incarnation());
  const std::uint64_t other = cluster.server(1).node().incarnation();
  cluster.kill_server(0, 1s);
  cluster.pass(500ms);
  REQUIRE(shard().primary == other);
  while (!shard().handover) cluster.step();
  REQUIRE(shard().backup == other);
  // Continues until server 1 has the new view, but has not sent any of the state.
  while (cluster.server(1).node().shard(0).epoch() < shard().epoch) cluster.step();
  cluster.kill_server(0, 30s);
  cluster.pass(3s);
  CHECK(shard().primary == other);
  CHECK(cluster.server(1).node().stats(cluster.now()).keys == 1);
  CHECK_FALSE(cluster.worker(0).has_lost());
}

// While server 0 restarts, its shard is on the two other servers. The shard's primary dies `steps` steps
// after the shard begins to move back.
TEST_CASE("replication: a part that goes home has two complete copies at each moment") {
  int learners = 0;
  for (int steps = 0; steps < 400; steps += test::kSanitized ? 40 : 4) {
    CAPTURE(steps);
    Plan plan{.servers = 3, .workers = 1, .replicas = 2, .rounds = 900, .consistency = "async"};
    plan.keys = {{.shard = 0}, {.shard = 0}, {.shard = 0}};
    plan.groups = {{0}, {1}, {2}};
    plan.most_pause = 50ms;
    plan.keys_at_once = 1;
    Cluster cluster(plan, 1);
    const auto shard = [&] { return cluster.decided().views.shards[0]; };
    cluster.pass(1s);
    cluster.kill_server(0, 1s);
    while (shard().learner == 0 && !shard().handover) cluster.step();
    learners += shard().learner != 0;
    for (int i = 0; i < steps; ++i) cluster.step();
    for (std::size_t slot = 0; slot < 3; ++slot) {
      if (cluster.server(slot).node().incarnation() != shard().primary) continue;
      cluster.kill_server(slot, 30s);
      break;
    }
    cluster.pass(10s);
    CHECK_FALSE(cluster.worker(0).has_lost());
    CHECK(cluster.counts.decisions.lost == 0);
    CHECK(cluster.scheduler().stats().shards[0].primary >= 0);
  }
  CHECK(learners > 0);
}

TEST_CASE(
    "replication: a server is ready when it serves its own part and all copies that it knows of are "
    "complete") {
  sim::Plan plan{.servers = 2, .workers = 1, .replicas = 2, .rounds = 300, .consistency = "async"};
  plan.keys = {{.shard = 0}, {.shard = 1}, {.shard = 0}, {.shard = 1}};
  plan.groups = {{0}, {1}, {2}, {3}};
  plan.most_pause = std::chrono::milliseconds(50);
  plan.keys_at_once = 1;
  sim::Cluster cluster(plan, 1);
  const auto why = [&](std::size_t slot) {
    return cluster.server(slot).node().reason_not_ready(cluster.now());
  };
  CHECK(why(0) == "this server is not the primary of shard 0");
  cluster.pass(std::chrono::seconds(1));
  CHECK(why(0) == "");
  CHECK(why(1) == "");
  cluster.kill_server(1, std::chrono::milliseconds(500));
  cluster.pass(std::chrono::milliseconds(400));
  CHECK(why(0) == "shard 0 has no backup");
  cluster.pass(std::chrono::milliseconds(110));  // until server 1 is back
  std::set<std::string> before, after;
  while (!why(1).empty()) {
    before.insert(why(0));
    after.insert(why(1));
    cluster.step();
  }
  CHECK(before.contains("shard 0 has no backup"));
  CHECK(before.contains("the copy of shard 0 is not complete"));
  CHECK(after.contains("this server is not the primary of shard 1"));
  CHECK(cluster.decided().views.shards[1].primary == cluster.server(1).node().incarnation());
  CHECK(cluster.server(0).node().shard(0).is_synced());
  cluster.run();
}
