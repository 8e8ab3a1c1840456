// After shards had missing copies, the scheduler logs once that all shards have two complete copies again.
#include <algorithm>

#include <doctest/doctest.h>

#include "membership/world.h"

using namespace heddle;
using namespace heddle::kv_detail;
using namespace heddle::test;

namespace {

// A world with `count` servers, whose shards have complete copies.
struct Servers : World {
  explicit Servers(std::uint32_t count, std::uint32_t replicas = 2)
      : World({.servers = static_cast<int>(count)}) {
    for (std::uint32_t number = 0; number < count; ++number) start_server(number, replicas);
    pass(100ms);
    report();
  }
  void report() {
    for (const auto& node : nodes) {
      if (node->alive) node->report_all();
    }
    pass(150ms);
  }
  auto said() const {
    return std::count_if(events.begin(), events.end(),
                         [](const ServerEvent& one) { return one.name == "copies_complete"; });
  }
};

}  // namespace

TEST_CASE("scheduler: copies that are complete again are said once, when the last part has its own") {
  for (const std::uint32_t count : {2u, 3u}) {
    CAPTURE(count);
    Servers world(count);
    // The first complete copies replace no missing ones, so the scheduler logs nothing.
    CHECK(world.said() == 0);
    for (int loss = 1; loss <= 2; ++loss) {
      CAPTURE(loss);
      world.kill(*world.node_of(world.shard(0).primary));
      world.pass(1s);
      CHECK(world.said() == loss - 1);
      world.start_server(0);
      world.pass(200ms);
      if (count == 2) CHECK(world.said() == loss - 1);  // no copy is complete on the new server yet
      // As many reports as shard 0 needs to get back to its own server.
      for (int i = 0; i < 6; ++i) world.report();
      CHECK(world.said() == loss);
    }
    const auto found = std::find_if(world.events.begin(), world.events.end(),
                                    [](const ServerEvent& one) { return one.name == "copies_complete"; });
    CHECK(found->level == ServerEvent::Level::warning);
    CHECK(field(*found, "shards") == std::to_string(count));
  }
}

TEST_CASE("scheduler: copies that are complete again are no warning if a server has left in order") {
  Servers world(2);
  Node& first = *world.nodes[0];
  first.member.leave();
  world.pass(1s);
  first.member.unregister();
  world.pass(1s);
  world.start_server(0);
  world.pass(200ms);
  for (int i = 0; i < 6; ++i) world.report();
  CHECK(world.said() == 1);
  for (const ServerEvent& one : world.events) {
    CAPTURE(one.name);
    CHECK(one.level <= ServerEvent::Level::info);
  }
}

TEST_CASE("scheduler: started anew while copies are missing, it says when they are complete") {
  Servers world(2);
  world.kill(*world.nodes[0]);
  world.pass(1s);
  world.start_server(0);
  world.pass(200ms);
  world.crash();
  world.pass(1s);
  CHECK(world.said() == 0);
  for (int i = 0; i < 6; ++i) world.report();
  CHECK(world.said() == 1);
}

TEST_CASE("scheduler: without copies nothing is said of them") {
  Servers world(2, 1);
  world.kill(*world.nodes[0]);
  world.pass(1s);
  world.start_server(0);
  world.pass(1s);
  world.report();
  CHECK(world.said() == 0);
}
