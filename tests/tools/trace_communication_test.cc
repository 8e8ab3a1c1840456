// The part of the communication that heddle trace counts as hidden.
#include <random>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "arguments.h"
#include "heddle_program.h"
#include "trace_events.h"

using namespace heddle::test;

namespace {

Json inside(Json wait, int sequence) {
  wait["cat"] = "wait";
  wait["args"]["seq"] = sequence;
  return wait;
}

// Microseconds:  0    10    20    30    40    50    60    70    80    90
//   worker 0     [decode 0-20]   [kvstore_decompress 30-40]
//   worker 1                     [load 25-80; in it a wait 50-70]
//   under way         [kvstore_push 10-35 ]
//                         [kvstore_pull 12-90                           ]
// Communication is under way from 10 to 90. It is hidden from 10 to 20, 25 to 50 and 70 to 80: time in which
// several ops compute counts once, and `load` does not compute while it waits.
TEST_CASE("what a store on servers sends is communication, hidden while an op computes that does not wait") {
  const Json events = {lane(8, "engine 1 worker 0"),           op(8, "decode", 0, 20, 1),
                       op(8, "kvstore_decompress", 30, 10, 2), op(9, "load", 25, 55, 3),
                       inside(op(2, "wait", 50, 20, 0), 3),    async(8, "kvstore_push", 10, 25, 4),
                       async(8, "kvstore_pull", 12, 78, 5)};
  const Json found = report(events.dump())["communication"];
  REQUIRE(found.size() == 1);
  CHECK(found[0] ==
        Json{{"process", 1}, {"ops", 2}, {"time", 80'000}, {"hidden", 45'000}, {"hidden_share", 45.0 / 80}});
}

TEST_CASE("every op of a store on servers counts as communication, what it computes does not") {
  for (const char* name : {"kvstore_init", "kvstore_push", "kvstore_pull", "kvstore_push_pull",
                           "kvstore_assign", "kvstore_push_rows", "kvstore_pull_rows", "kvstore_push_many",
                           "kvstore_pull_many", "kvstore_push_pull_many", "kvstore_barrier"}) {
    CAPTURE(name);
    const Json events = {async(8, name, 0, 10, 1), op(8, "kvstore_compress", 5, 5, 2)};
    const Json found = report(events.dump())["communication"];
    REQUIRE(found.size() == 1);
    CHECK(found[0]["hidden_share"] == 0.5);
  }
  CHECK(report(Json{op(8, "kvstore_compress", 5, 5, 2)}.dump())["communication"].empty());
}

// Op 1 waits from 10 to 30. Op 2 starts at 15 on the same thread, inside this wait, and waits from 20 on. So
// the times 0 to 10, 15 to 20 and 30 to 40 count as computation.
TEST_CASE("ops on top of an op that waits compute; a wait beyond its op's end hides no more than there is") {
  const Json events = {op(8, "outer", 0, 40, 1), inside(op(2, "wait", 10, 20, 0), 1),
                       op(8, "inner", 15, 15, 2), inside(op(2, "wait", 20, 50, 0), 2),
                       async(8, "all_reduce", 0, 100, 3)};
  CHECK(report(events.dump())["communication"][0]["hidden"] == 10'000 + 5'000 + 10'000);
}

TEST_CASE("no more than all of the communication is hidden, however many ops run beside it") {
  std::mt19937 random(3);
  for (int turn = 0; turn < (kSanitized ? 3 : 20); ++turn) {
    Json events = Json::array();
    for (int i = 0; i < 60; ++i) {
      const auto number = [&](unsigned most) { return static_cast<int>(random() % most); };
      Json event = op(8 + number(3), "work", number(100), number(60), i);
      if (i % 4 == 1)
        event = async(8, i % 8 == 1 ? "all_reduce 8 B" : "kvstore_pull", number(100), number(60), i);
      if (i % 4 == 2) event = inside(event, number(60));
      events.push_back(event);
    }
    const Json found = report(events.dump())["communication"][0];
    CHECK(found["hidden"] <= found["time"]);
    CHECK(found["hidden"] >= 0);
    CHECK(found["time"] <= 160'000);
  }
}

}  // namespace
