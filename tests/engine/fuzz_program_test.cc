// How a user finds a missing dependency: runs the program under HEDDLE_SCHEDULER=fuzz:1, fuzz:2, ...
#include <cstdlib>
#include <memory>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "command.h"

namespace {

using Result = heddle::test::CommandResult;

Result run(const std::string& environment, const std::string& flags = "") {
  return heddle::test::run_command("env " + environment + " '" HEDDLE_FUZZ_PROGRAM "' " + flags);
}

Result run_seed(int seed, const std::string& flags = "") {
  return run("HEDDLE_SCHEDULER=fuzz:" + std::to_string(seed), flags);
}

constexpr int kSeeds = 50;

}  // namespace

TEST_CASE("a missing dependency shows within 50 seeds, and its seed replays the run exactly") {
  int failing = 0;
  for (int seed = 1; seed <= kSeeds && failing == 0; ++seed) {
    if (run_seed(seed).code == 1) failing = seed;
  }
  REQUIRE(failing > 0);
  CAPTURE(failing);
  const Result first = run_seed(failing);
  for (int replay = 0; replay < 10; ++replay) {
    const Result again = run_seed(failing);
    CHECK(again.output == first.output);
    CHECK(again.code == 1);
  }
  CHECK(run("HEDDLE_SCHEDULER=naive").output == "abcdefghij! 385\n");
}

TEST_CASE("with the dependency declared every seed gives the right result") {
  for (int seed = 1; seed <= kSeeds; ++seed) {
    CAPTURE(seed);
    CHECK(run_seed(seed, "--fixed") == Result{"abcdefghij! 385\n", 0});
  }
}

TEST_CASE("seeds give different schedules") {
  std::set<std::string> outputs;
  for (int seed = 1; seed <= kSeeds; ++seed) outputs.insert(run_seed(seed).output);
  CHECK(outputs.size() > 3);
}
