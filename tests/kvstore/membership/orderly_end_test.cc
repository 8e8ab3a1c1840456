// The scheduler warns of servers that are lost, and not of servers that were told to end.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "membership/world.h"

using namespace heddle;
using namespace heddle::test;

TEST_CASE("scheduler: servers that end as they were told to are no alarm, those that are lost are") {
  const auto alarms = [](const World& world) {
    std::vector<std::string> names;
    for (const ServerEvent& one : world.events)
      if (one.level >= ServerEvent::Level::warning) names.push_back(one.name);
    return names;
  };
  for (const bool in_order : {true, false}) {
    World world({.servers = 2});
    Node& a = world.start_server(0);
    Node& b = world.start_server(1);
    world.pass(200ms);
    a.report_all(), b.report_all();
    world.pass(100ms);
    if (in_order) {
      a.member.leave(), b.member.leave();
      world.pass(100ms);
      a.member.unregister();
    } else {
      world.kill(a);
    }
    world.pass(1s);
    CHECK(world.shard(0).primary == b.incarnation);
    CHECK(world.shard(1).backup == 0);
    if (in_order) b.member.unregister();
    world.pass(1s);
    CHECK(world.core->stats().failovers == (in_order ? 0 : 1));
    using Names = std::vector<std::string>;
    CHECK(alarms(world) == (in_order ? Names{} : Names{"server_gone", "shard_failed_over", "backup_gone"}));
  }
}
