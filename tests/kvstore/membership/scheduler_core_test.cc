#include "membership/scheduler_core.h"

#include <string>

#include <doctest/doctest.h>

#include "membership/world.h"

using namespace heddle;
using namespace heddle::kv_detail;
using namespace heddle::test;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A world with three servers, whose shards have complete copies.
struct Three : World {
  Node *a, *b, *c;
  Three() : World({.servers = 3}) {
    a = &start_server(0), b = &start_server(1), c = &start_server(2);
    pass(100ms);
    sync();
  }
  void sync() {
    for (const auto& node : nodes) {
      if (node->alive) node->report_all();
    }
    pass(150ms);
  }
};

}  // namespace

TEST_CASE("scheduler: the views are given out once all servers have come") {
  World world({.servers = 3});
  Node& first = world.start_server(0);
  Node& worker = world.start_worker();
  Node& third = world.start_server(kAnyNumber);  // the scheduler gives this server the lowest free number
  world.pass(1s);
  CHECK(world.core->views().version == 0);
  CHECK(first.member.is_registered());
  CHECK(third.member.registered().number == 1);
  CHECK(holds(worker.member.why(), "server 2 of 3"));
  CHECK_FALSE(holds(worker.member.why(), "server 1"));
  Node& last = world.start_server(2);
  world.pass(100ms);
  REQUIRE(world.core->views().version == 1);
  CHECK(world.disk->views == world.core->views());
  for (const Node* node : {&first, &third, &last, &worker})
    CHECK(node->member.views() == world.core->views());
  CHECK(world.shard(0) == ShardView{1, first.incarnation, third.incarnation, true});
  CHECK(world.shard(1) == ShardView{1, third.incarnation, last.incarnation, true});
  CHECK(world.shard(2) == ShardView{1, last.incarnation, first.incarnation, true});
}

TEST_CASE("scheduler: who has not come is named, and those that wait are told so in the end") {
  World world({.servers = 2, .workers = 2, .start_timeout = 5000ms});
  Node& server = world.start_server(0);
  Node& worker = world.start_worker(0);
  world.pass(4s);
  CHECK(server.refusal.empty());
  world.pass(2s);
  for (const Node* node : {&server, &worker}) {
    CHECK(holds(node->refusal, "waiting for 5.0 s for server 1 of 2, worker 1 of 2 of job 'job'"));
    CHECK(node->member.is_refused());
  }
  CHECK(world.has_event("start_failed"));
  // After the failed start the scheduler accepts new processes.
  world.start_server(0), world.start_server(1);
  world.pass(100ms);
  CHECK(world.core->views().version == 1);
}

TEST_CASE("scheduler: ranks are given or assigned, and a rank has one process") {
  World world({.servers = 1});
  world.start_server(0, 1);
  Node& second = world.start_worker(1, 3);
  world.pass(100ms);
  Node& any = world.start_worker();
  world.pass(100ms);
  Node& other = world.start_worker();
  world.pass(100ms);
  CHECK(second.member.registered().number == 1);
  CHECK(any.member.registered().number == 0);
  CHECK(any.member.registered().workers == 3);
  CHECK(other.member.registered().number == 2);
  Node& many = world.start_worker();
  Node& wrong = world.start_worker(0, 4);
  Node& twice = world.start_worker(1, 3);
  world.pass(10s);
  CHECK(holds(twice.refusal, "worker 1 of job 'job' is there already: "));
  CHECK(holds(twice.refusal, " (another store or job needs another HEDDLE_JOB)"));
  CHECK(holds(many.refusal, "all 3 workers of job 'job' are there"));
  CHECK(holds(wrong.refusal, "a job of 4 workers; the other workers of job 'job' say 3"));
  world.kill(any);
  Node& again = world.start_worker();
  world.pass(1s);
  CHECK(again.member.registered().number == 0);
}

TEST_CASE("scheduler: a second process of a number that is alive is refused; of one that is gone it is not") {
  Three world;
  Node& second = world.start_server(1);
  world.pass(6s);
  CHECK_FALSE(second.member.is_registered());
  // No refusal yet: the first process may be dead without the scheduler's knowledge.
  CHECK(second.refusal.empty());
  world.pass(2s);
  CHECK(holds(second.refusal, "server 1 is there already: "));
  CHECK(holds(second.refusal, "process "));
  CHECK(world.shard(1).primary == world.b->incarnation);
  world.b->silent = true;
  Node& next = world.start_server(1);
  world.pass(4s);
  CHECK(next.member.is_registered());
  CHECK(world.shard(1).primary == world.c->incarnation);
}

TEST_CASE("scheduler: what does not fit is refused with the reason") {
  Three world;
  const auto refusal = [&](MemberOptions options) {
    Node& node = world.start(std::move(options));
    world.pass(100ms);
    return node.refusal;
  };
  CHECK(holds(refusal({.role = Role::server, .number = 3, .replicas = 2, .address = "a:1"}),
              "there is no number 3 among 3 servers"));
  CHECK(holds(refusal({.role = Role::server, .number = 1, .servers = 2, .replicas = 2, .address = "a:1"}),
              "expects 2 servers, the scheduler is for 3"));
  CHECK(holds(refusal({.role = Role::server, .number = 1, .replicas = 1, .address = "a:1"}),
              "replicas is 1, that of the others 2"));
  CHECK(holds(refusal({.role = Role::server, .number = 1, .replicas = 3, .address = "a:1"}), "3 replicas"));
  CHECK(holds(refusal({.role = Role::server, .number = 1, .replicas = 2}), "at which address"));
  CHECK(holds(refusal({.number = 4, .workers = 2}), "there is no rank 4 among 2 workers"));
  CHECK(holds(refusal({.workers = ~0u}), "a job of 4294967295 workers; there may be 65536"));
  CHECK(world.core->stats().refused == 7);
}

TEST_CASE("scheduler: a large job that is waited for has a short text") {
  SchedulerCore core({.servers = 1}, {.cluster = 1, .servers = 1}, {});
  core.connected(1);
  core.received(1, encode(Registration{.workers = 1 << 16, .incarnation = 5, .job = "job"}), {});
  core.tick({});
  core.received(1, encode(Heartbeat{}), {});
  std::string text;
  for (const auto& [peer, head] : core.take_outbox().messages) {
    const FromScheduler message = decode_from_scheduler(head);
    if (const auto* status = std::get_if<Status>(&message)) text = status->text;
  }
  CHECK(holds(text, "waiting for 0.0 s for server 0 of 1, worker 1 of 65536 of job 'job', "));
  CHECK(holds(text, " and 65520 more"));
}

TEST_CASE(
    "scheduler: a shard fails over to a backup that is complete, gets another one, and goes home later") {
  Three world;
  world.kill(*world.b);
  world.pass(200ms);
  CHECK(world.shard(1) == ShardView{3, world.c->incarnation, world.a->incarnation, false});
  CHECK(world.shard(0) == ShardView{3, world.a->incarnation, world.c->incarnation, false});
  CHECK(world.shard(2).epoch == 1);
  CHECK(world.has_event("shard_failed_over"));
  Node& back = world.start_server(1);
  world.pass(200ms);
  // a stays the backup: its copy is not complete yet, and the new server does not replace it
  CHECK(world.shard(1).backup == world.a->incarnation);
  world.sync();
  CHECK(without_learner(world.shard(1)) == ShardView{3, world.c->incarnation, world.a->incarnation, false});
  // The complete backup a stays until the new server, which learns the state, has a complete copy.
  CHECK(world.shard(1).learner == back.incarnation);
  CHECK(world.core->stats().shards[1].copies == 2);
  world.sync();
  CHECK(world.shard(1) == ShardView{5, back.incarnation, world.c->incarnation, false, true});
  world.sync();
  CHECK(world.shard(1).epoch == 5);
  const StoreSchedulerStats stats = world.core->stats();
  CHECK(stats.failovers == 1);
  CHECK(stats.returned == 1);
  CHECK(stats.lost == 0);
  CHECK(stats.shards[1].primary == 1);
  CHECK(stats.shards[1].synced);
  CHECK(stats.shards[1].copies == 2);
}

TEST_CASE("scheduler: servers that do not say how many copies they want have two, if others do not say one") {
  World world({.servers = 2});
  const Node& a = world.start_server(0, 0);
  const Node& b = world.start_server(1, 0);
  world.pass(200ms);
  CHECK(world.shard(0) == ShardView{1, a.incarnation, b.incarnation, true});
  World one({.servers = 2});
  const Node& says = one.start_server(0, 1);
  one.pass(100ms);
  const Node& other = one.start_server(1, 0);
  one.pass(200ms);
  CHECK(one.shard(0) == ShardView{1, says.incarnation, 0, true});
  CHECK(other.refusal.empty());
  World single({.servers = 1});
  const Node& alone = single.start_server(0, 0);
  single.pass(200ms);
  CHECK(single.shard(0) == ShardView{1, alone.incarnation, 0, true});
  CHECK(single.core->views().shards.size() == 1);
}

TEST_CASE(
    "scheduler: a server that leaves hands its shard to a backup that is complete, and is nobody's backup") {
  Three world;
  world.b->member.leave();
  world.pass(200ms);
  CHECK(world.shard(1) == ShardView{3, world.c->incarnation, world.a->incarnation, false});
  CHECK(without_learner(world.shard(0)) == ShardView{1, world.a->incarnation, world.b->incarnation, true});
  // b keeps its copy of shard 0 until c, the learner, has a complete one
  CHECK(world.shard(0).learner == world.c->incarnation);
  CHECK(world.has_event("shard_handed_over"));
  world.sync();
  CHECK(world.shard(0).backup == world.c->incarnation);
  CHECK(world.core->stats().shards[0].synced);
  world.pass(1s);
  CHECK(world.shard(1).primary == world.c->incarnation);  // shard 1 does not return to b, which leaves
  world.b->member.unregister();
  world.pass(100ms);
  const Node& next = world.start_server(1);
  world.pass(200ms);
  world.sync();
  world.sync();
  CHECK(world.shard(1).primary == next.incarnation);
  CHECK(world.core->stats().lost == 0);
  CHECK(world.core->stats().failovers == 0);
}

TEST_CASE("scheduler: a complete backup is kept until the server that comes back has all") {
  for (const bool reported : {false, true}) {
    Three world;
    world.kill(*world.a);
    world.pass(1s);
    world.sync();
    REQUIRE(world.shard(0).primary == world.b->incarnation);
    REQUIRE(world.shard(0).backup == world.c->incarnation);
    const Node& back = world.start_server(0);
    world.pass(100ms);
    REQUIRE(world.shard(0).learner == back.incarnation);
    CHECK(world.core->stats().shards[0].copies == 2);
    if (reported) world.b->report_all(), world.pass(30ms);
    world.kill(*world.b);
    world.pass(5s);
    CHECK(world.shard(0).primary == (reported ? back.incarnation : world.c->incarnation));
    CHECK(world.core->stats().lost == 0);
  }
}

TEST_CASE("scheduler: a learner that is gone, or has lost what it had, begins anew, and the backup stays") {
  Three world;
  world.kill(*world.a);
  world.pass(1s);
  world.sync();
  Node& back = world.start_server(0);
  world.pass(100ms);
  const ShardView before = world.shard(0);
  REQUIRE(before.learner == back.incarnation);
  world.b->report_all();
  world.b->member.report_lost(0, before.learner_copy);
  world.pass(100ms);
  CHECK(without_learner(world.shard(0)) == without_learner(before));
  CHECK(world.shard(0).learner == back.incarnation);
  CHECK(world.shard(0).learner_copy > before.learner_copy);
  world.kill(back);
  world.pass(1s);
  CHECK(without_learner(world.shard(0)) == without_learner(before));
  CHECK(world.shard(0).learner == 0);
  // If the backup is lost, the learner becomes the backup and goes on with the copy that it has begun.
  Node& again = world.start_server(0);
  world.pass(100ms);
  const std::uint64_t copy = world.shard(0).learner_copy;
  world.kill(*world.c);
  world.pass(1s);
  CHECK(world.shard(0).backup == again.incarnation);
  CHECK(copy_of(world.shard(0)) == copy);
  CHECK_FALSE(world.core->stats().shards[0].synced);
  world.b->report_all();
  world.pass(100ms);
  CHECK(world.core->stats().lost == 0);
  CHECK(world.shard(0).primary == again.incarnation);
}

TEST_CASE("scheduler: a shard of servers that leave goes to the one that stays") {
  Three world;
  world.b->member.leave(), world.c->member.leave();
  world.pass(1s);
  CHECK(world.shard(1).primary == world.b->incarnation);
  CHECK(world.shard(1).learner == world.a->incarnation);
  world.sync();
  world.sync();
  for (std::uint32_t shard = 0; shard < 3; ++shard) CHECK(world.shard(shard).primary == world.a->incarnation);
  world.b->member.unregister(), world.c->member.unregister();
  world.pass(1s);
  CHECK(world.core->stats().lost == 0);
}

TEST_CASE(
    "scheduler: a shard whose primary is gone, and nobody has a copy, has no primary in the statistics") {
  World world({.servers = 2});
  Node& a = world.start_server(0, 1);
  world.start_server(1, 1);
  world.pass(200ms);
  CHECK(world.core->stats().shards[0].primary == 0);
  world.kill(a);
  world.pass(1s);
  CHECK(world.core->stats().shards[0].primary == -1);
  CHECK(world.core->stats().shards[0].copies == 0);
}

TEST_CASE("scheduler: a server that leaves keeps its shard until its backup is complete") {
  World world({.servers = 2});
  Node& a = world.start_server(0);
  const Node& b = world.start_server(1);
  world.pass(200ms);
  a.member.leave();
  world.pass(1s);
  CHECK(world.shard(0) == ShardView{1, a.incarnation, b.incarnation, true});
  a.report_all();
  world.crash();  // the members repeat their reports to the restarted scheduler
  world.pass(1s);
  CHECK(world.shard(0) == ShardView{2, b.incarnation, 0, false});
}

TEST_CASE("scheduler: two servers that leave at one time keep what they have") {
  World world({.servers = 2});
  Node& a = world.start_server(0);
  Node& b = world.start_server(1);
  world.pass(200ms);
  a.report_all(), b.report_all();
  world.pass(100ms);
  a.member.leave(), b.member.leave();
  world.pass(1s);
  CHECK(world.shard(0).primary == a.incarnation);
  CHECK(world.shard(1).primary == b.incarnation);
  CHECK(world.core->stats().lost == 0);
}

TEST_CASE("scheduler: who has just handed a shard back keeps all of it until it is taken over") {
  Three world;
  world.kill(*world.b);
  world.pass(200ms);
  Node& back = world.start_server(1);
  world.pass(200ms);
  world.sync();
  world.sync();
  REQUIRE(world.shard(1) == ShardView{5, back.incarnation, world.c->incarnation, false, true});
  world.kill(back);  // dies before c has a complete copy of epoch 5
  world.pass(200ms);
  CHECK(world.shard(1).primary == world.c->incarnation);
  CHECK(world.core->stats().lost == 0);
}

TEST_CASE("scheduler: without a complete backup a shard waits for its primary") {
  World world({.servers = 2});
  Node& a = world.start_server(0);
  Node& b = world.start_server(1);
  world.pass(200ms);
  a.silent = true;
  world.pass(5s);
  // Does not fail over: nobody has reported b's copy as complete.
  CHECK(world.shard(0) == ShardView{1, a.incarnation, b.incarnation, true});
  a.silent = false;
  world.pass(5s);
  CHECK(a.member.is_registered());
  CHECK(world.shard(0).primary == a.incarnation);
  CHECK(world.core->stats().lost == 0);
  // The scheduler ignores reports of another epoch, or from a process that is not the primary.
  const ShardView before = world.shard(0);
  a.member.report_synced(0, before.epoch + 1);
  b.member.report_synced(0, before.epoch);
  world.pass(200ms);
  world.kill(a);
  world.pass(5s);
  CHECK(world.shard(0).primary == a.incarnation);
}

TEST_CASE("scheduler: a shard whose only process was started anew begins anew, and says so") {
  World world({.servers = 2});
  Node& a = world.start_server(0, 1);
  world.start_server(1, 1);
  world.pass(200ms);
  CHECK(world.shard(0) == ShardView{1, a.incarnation, 0, true});
  world.kill(a);
  world.pass(1s);
  CHECK(world.shard(0).epoch == 1);
  Node& again = world.start_server(0, 1);
  world.pass(200ms);
  CHECK(world.shard(0) == ShardView{2, again.incarnation, 0, true});
  CHECK(world.has_event("shard_lost"));
  CHECK(world.core->stats().lost == 1);
}

TEST_CASE("scheduler: a shard is given to another server if its own is gone for long, if that is wanted") {
  World world({.servers = 2, .lost_after = 10'000ms});
  Node& a = world.start_server(0, 1);
  Node& b = world.start_server(1, 1);
  world.pass(200ms);
  world.kill(a);
  world.pass(9s);
  CHECK(world.shard(0).primary == a.incarnation);
  world.pass(2s);
  CHECK(world.shard(0) == ShardView{2, b.incarnation, 0, true});
}

TEST_CASE("scheduler: no shard is given to another server while the scheduler itself is cut off") {
  World world({.servers = 2, .lost_after = 1000ms});
  Node& a = world.start_server(0, 1);
  Node& b = world.start_server(1, 1);
  world.pass(200ms);
  a.silent = b.silent = true;
  world.pass(20s);
  b.silent = false;
  world.pass(500ms);
  CHECK(b.member.is_registered());
  CHECK(world.shard(0).primary == a.incarnation);
  a.silent = false;
  world.pass(500ms);
  CHECK(a.member.is_registered());
  CHECK(world.core->stats().lost == 0);
}

TEST_CASE("scheduler: a complete backup is not replaced while its primary may be about to be gone") {
  Three world;
  world.kill(*world.a);
  world.pass(1s);
  world.sync();
  REQUIRE(world.shard(0).primary == world.b->incarnation);
  REQUIRE(world.shard(0).backup == world.c->incarnation);
  world.kill(*world.b);
  Node& again = world.start_server(0);
  world.pass(50ms);
  CHECK(again.member.is_registered());
  CHECK(world.shard(0).backup == world.c->incarnation);
  world.pass(1s);
  CHECK(world.shard(0).primary == world.c->incarnation);
  CHECK(world.core->stats().lost == 0);
}

TEST_CASE("scheduler: a complete backup that has lost its connection is waited for") {
  Three world;
  world.b->silent = world.c->silent = true;  // c has a complete copy of shard 1, so the shard waits for c
  world.pass(5s);
  Node& again = world.start_server(1);
  world.pass(1s);
  CHECK(again.member.is_registered());
  CHECK(world.shard(1).primary == world.b->incarnation);
  world.c->silent = false;
  world.pass(1s);
  CHECK(world.shard(1).primary == world.c->incarnation);
  CHECK(world.core->stats().lost == 0);
}

TEST_CASE("scheduler: a connection that comes back within the grace changes nothing") {
  Three world;
  const std::uint64_t version = world.core->views().version;
  for (int i = 0; i < 5; ++i) {
    world.cut(*world.b);
    world.pass(50ms);
  }
  world.pass(1s);
  CHECK(world.core->views().version == version);
  CHECK(world.b->member.is_registered());
}

TEST_CASE("scheduler: started anew, it waits for the servers that it knows, and decides nothing meanwhile") {
  Three world;
  const Views before = world.core->views();
  world.crash();
  // No server has registered with the restarted scheduler yet.
  CHECK(world.core->stats().shards[1].copies == 0);
  world.b->silent = true;
  world.pass(2900ms);
  CHECK(world.core->views() == before);
  world.b->silent = false;
  world.pass(1s);
  CHECK(world.core->views() == before);
  world.crash();  // the restarted scheduler knows from the saved state which backups are complete
  world.kill(*world.b);
  world.pass(2900ms);
  CHECK(world.core->views() == before);
  world.pass(500ms);
  CHECK(world.shard(1).primary == world.c->incarnation);
}

TEST_CASE("scheduler: started anew before the job has begun, it may give a number to another process") {
  World world({.servers = 2});
  Node& first = world.start_server(kAnyNumber);
  Node& worker = world.start_worker(kAnyNumber, 2);
  world.pass(100ms);
  CHECK(first.member.registered().number == 0);
  CHECK(worker.member.registered().number == 0);
  first.silent = worker.silent = true;
  world.crash();
  Node& second = world.start_server(kAnyNumber);
  Node& other = world.start_worker(kAnyNumber, 2);
  world.pass(100ms);
  CHECK(second.member.registered().number == 0);
  CHECK(other.member.registered().number == 0);
  first.silent = worker.silent = false;
  world.pass(1s);
  CHECK(first.member.registered().number == 1);
  CHECK(worker.member.registered().number == 1);
  CHECK(world.core->views().version == 1);
}

TEST_CASE("scheduler: started anew, it gives ranks to others once it knows who has had one") {
  World world({.servers = 1});
  world.start_server(0, 1);
  Node& worker = world.start_worker(kAnyNumber, 2);
  world.pass(100ms);
  CHECK(worker.member.views().version == 1);
  worker.silent = true;
  world.crash();
  Node& other = world.start_worker(kAnyNumber, 2);
  world.pass(2s);
  CHECK(!other.member.is_registered());
  worker.silent = false;
  world.pass(2s);
  CHECK(worker.member.registered().number == 0);
  CHECK(other.member.registered().number == 1);
}

TEST_CASE(
    "scheduler: without its state it refuses processes that know views of another one, until the state is "
    "back") {
  Three world;
  const auto right = world.disk;
  const std::uint64_t version = world.core->views().version;
  world.disk.reset();
  world.crash();
  world.pass(30s);
  for (const Node* node : {world.a, world.b, world.c}) {
    CHECK(node->member.is_refused_now());
    CHECK(holds(node->member.why(), "it was started without their saved state"));
    CHECK(node->refusal.empty());
  }
  CHECK(world.core->views().version == 0);
  world.disk = right;
  world.crash();
  world.pass(10s);
  for (const Node* node : {world.a, world.b, world.c}) CHECK(node->member.is_registered());
  CHECK(world.core->views().version >= version);
}

TEST_CASE("scheduler: with an old state file it refuses processes that know newer views") {
  Three world;
  const auto old = world.disk;
  world.kill(*world.b);
  world.pass(1s);
  world.disk = old;
  world.crash();
  world.pass(1s);
  CHECK(holds(world.a->refusal, "older than what this process was told"));
}

TEST_CASE("scheduler: a server that leaves is replaced at once") {
  Three world;
  world.b->member.unregister();
  world.step_all();
  world.tick(10ms);
  CHECK(world.shard(1).primary == world.c->incarnation);
}

TEST_CASE("scheduler: a job of once is over when all its workers have left") {
  World world({.servers = 1, .once = true});
  Node& server = world.start_server(0, 1);
  Node& first = world.start_worker(0, 2);
  Node& second = world.start_worker(1, 2);
  world.pass(200ms);
  first.member.unregister();
  world.pass(1s);
  CHECK_FALSE(world.core->is_over());
  second.member.unregister();
  world.pass(200ms);
  CHECK(world.core->is_over());
  CHECK(server.over);
}

TEST_CASE("scheduler: a pause of its own makes nobody silent") {
  Three world;
  const std::uint64_t version = world.core->views().version;
  world.now += 10s;
  world.core->paused(10s);
  world.tick(10ms);
  world.pass(1s);
  CHECK(world.core->views().version == version);
  CHECK(world.b->member.is_registered());
}

TEST_CASE("scheduler: a state of another number of servers is refused") {
  Three world;
  StoreSchedulerOptions options{.servers = 2, .state_file = "state"};
  CHECK_THROWS_AS(SchedulerCore(options, *world.disk, world.now), InvalidArgument);
}
