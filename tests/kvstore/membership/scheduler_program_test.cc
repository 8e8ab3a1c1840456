// A scheduler that crashes, and processes that die, stop, lose connections and come back, at any moment; on
// one thread in an order determined by a seed. The invariants of view_rules.h hold after each step.
#include <algorithm>
#include <random>
#include <string>

#include <doctest/doctest.h>

#include "arguments.h"
#include "membership/world.h"

using namespace heddle;
using namespace heddle::kv_detail;
using namespace heddle::test;

namespace {

class Program {
 public:
  explicit Program(std::uint64_t seed)
      : random_(seed),
        servers_(1 + pick(4)),
        replicas_(1 + pick(2)),
        world_({.servers = static_cast<int>(servers_), .lost_after = pick(3) == 0 ? 4000ms : 0ms}) {
    world_.after_each = [this] { check(); };
  }

  void run(int steps) {
    for (std::uint32_t number = 0; number < servers_; ++number) start_server(number);
    for (int i = 0; i < steps; ++i) step();
    heal();
    const Views& views = world_.core->views();
    REQUIRE(views.version > 0);
    for (std::uint32_t shard = 0; shard < servers_; ++shard) {
      const ShardView& view = views.shards[shard];
      const Node* const primary = world_.node_of(view.primary);
      REQUIRE(primary);
      CHECK(primary->alive);
      if (replicas_ < 2 || servers_ < 2) continue;
      // The shard has returned to the server with the shard's number.
      CHECK(find_server(views, view.primary)->number == shard);
      const Node* const backup = world_.node_of(view.backup);
      REQUIRE(backup);
      CHECK(backup->alive);
      CHECK(view.backup != view.primary);
    }
    for (const auto& node : world_.nodes) {
      if (node->member.is_registered()) CHECK(node->member.views() == views);
    }
  }

 private:
  std::uint32_t pick(std::uint32_t count) { return static_cast<std::uint32_t>(random_() % count); }

  void start_server(std::uint32_t number) {
    latest_.resize(servers_);
    latest_[number] = &world_.start_server(number, replicas_);
  }
  Node& any_server() { return *latest_[pick(servers_)]; }

  void step() {
    const std::uint32_t what = pick(100);
    if (what < 60) {
      move_message();
    } else if (what < 75) {
      if (Node& node = any_server(); node.alive && !node.silent) node.member.tick(world_.now);
    } else if (what < 85) {
      world_.tick(std::chrono::milliseconds(pick(20) == 0 ? pick(4000) : pick(60)));
      deliver();
    } else if (what < 90) {
      if (Node& node = any_server(); node.alive && !node.silent) node.report_all();
    } else if (what < 92) {
      world_.cut(any_server());
    } else if (what < 94) {
      Node& node = any_server();
      node.silent = !node.silent;
    } else if (what < 95) {
      world_.kill(any_server());
    } else if (what < 97) {
      const std::uint32_t number = pick(servers_);
      if (!latest_[number]->alive) start_server(number);
    } else if (what < 98) {
      // Starts a second process with a number. The scheduler refuses it, or it replaces a process that is
      // lost.
      Node& second = world_.start_server(pick(servers_), replicas_);
      second.member.tick(world_.now);
    } else if (what < 99) {
      world_.crash();
    } else {
      world_.pass(std::chrono::milliseconds(pick(500)));
    }
  }

  void move_message() {
    if (world_.wires.empty()) return;
    Wire& wire = world_.wires[pick(static_cast<std::uint32_t>(world_.wires.size()))];
    world_.step(wire, pick(2) == 0);
    deliver();
  }

  void deliver() {
    if (pick(100) > 0) return world_.deliver();
    world_.deliver(pick(3));
  }

  // Ends the faults: silent processes speak again, and dead or refused ones are restarted.
  void heal() {
    for (const auto& node : world_.nodes) node->silent = false;
    for (int i = 0; i < 300; ++i) {
      for (std::uint32_t number = 0; number < servers_; ++number) {
        if (!has_process(number)) start_server(number);
      }
      world_.pass(100ms);
      for (const auto& node : world_.nodes) {
        if (node->alive) node->report_all();
      }
    }
  }
  bool has_process(std::uint32_t number) const {
    return std::any_of(world_.nodes.begin(), world_.nodes.end(), [number](const auto& node) {
      return node->alive && node->member.self().number == number && !node->member.is_refused();
    });
  }

  // Checks the invariants that hold after each step.
  void check() {
    const Views& views = world_.core->views();
    // The restarted scheduler has lost decisions that no process has got.
    if (views.version < seen_.version) {
      REQUIRE(world_.disk.has_value() == (views.version > 0));
      seen_ = views;
      return;
    }
    for (std::size_t shard = 0; shard < views.shards.size(); ++shard) {
      const ShardView& now = views.shards[shard];
      if (shard >= seen_.shards.size()) continue;
      const ShardView& before = seen_.shards[shard];
      if (now == before) continue;
      CHECK((now.epoch > before.epoch || without_learner(now) == without_learner(before)));
      CHECK(now.epoch >= before.epoch);
      CHECK(now.learner_copy != now.epoch);
      CHECK(views.version > seen_.version);
      if (now.primary != before.primary) check_successor(static_cast<std::uint32_t>(shard), before, now);
      // From one epoch to the next the primary can only drop its backup: the backup's replacement is first a
      // learner, whose copy takes another number.
      if (now.epoch == before.epoch + 1 && now.primary == before.primary && before.backup != 0)
        CHECK(now.backup == 0);
    }
    seen_ = views;
  }

  void check_successor(std::uint32_t shard, const ShardView& before, const ShardView& now) {
    if (!now.fresh) {
      CHECK((now.primary == before.backup || now.primary == before.learner));
      const std::uint64_t copy = now.primary == before.backup ? copy_of(before) : before.learner_copy;
      CHECK((before.handover || world_.reports.contains({shard, copy, now.primary})));
      if (now.handover) CHECK(now.backup == before.primary);
      return;
    }
    // A shard may become empty only if the number of its primary has another process, or with the option
    // lost_after.
    const bool superseded = !find_server(world_.core->views(), before.primary);
    CHECK((superseded || world_.options.lost_after.count() > 0));
  }

  std::mt19937_64 random_;
  const std::uint32_t servers_, replicas_;
  World world_;
  std::vector<Node*> latest_;  // the newest process of each server number
  Views seen_;
};

}  // namespace

TEST_CASE("scheduler core: whatever dies and comes back, no two views contradict each other") {
  const auto programs = test::argument("programs", test::kSanitized ? 30 : 3000);
  for (long long seed = test::argument("first", 0); seed < programs; ++seed) {
    CAPTURE(seed);
    Program(static_cast<std::uint64_t>(seed)).run(600);
  }
}
