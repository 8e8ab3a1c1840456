#include "random_program.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "arguments.h"
#include "base/cores.h"
#include "one_core.h"

using namespace heddle;
using namespace heddle::test;

namespace {

constexpr int kPrograms = kSanitized ? 6 : 20;
constexpr std::uint64_t kSchedules = kSanitized ? 10 : 100;

Program without_streams(Program program) {
  program.streams = 0;
  return program;
}

}  // namespace

// The arguments --programs=10000 --ops=10000 make a long run.
TEST_CASE("random programs give the naive engine's result on every scheduler") {
  const auto programs = argument("programs", kPrograms);
  const int ops = static_cast<int>(argument("ops", kSanitized ? 3000 : 10000));
  for (long long seed = 0; seed < programs; ++seed) {
    CAPTURE(seed);
    const Program program = random_program(static_cast<std::uint64_t>(seed), ops, 100);
    const Outcome expected = run_program(program, {.scheduler = Scheduler::naive});
    for (int workers : {1, 2, 4, 16}) {
      CAPTURE(workers);
      REQUIRE(run_program(program, {.workers = workers}) == expected);
    }
    REQUIRE(run_program(program, {.scheduler = Scheduler::fuzz, .seed = static_cast<std::uint64_t>(seed)}) ==
            expected);
  }
}

TEST_CASE("one program gives one result under many fuzzed schedules") {
  const Program program = random_program(7, 2000, 30);
  const Outcome expected = run_program(program, {.scheduler = Scheduler::naive});
  CHECK(std::any_of(expected.errors.begin(), expected.errors.end(),
                    [](const auto& error) { return !error.empty(); }));
  for (std::uint64_t seed = 0; seed < kSchedules; ++seed) {
    CAPTURE(seed);
    REQUIRE(run_program(program, {.scheduler = Scheduler::fuzz, .seed = seed}) == expected);
  }
}

TEST_CASE("random programs where all threads share one core") {
  on_one_core([] {
    CHECK(detail::cores_by_affinity() == 1);
    for (std::uint64_t seed = 0; seed < (kSanitized ? 3 : 10); ++seed) {
      CAPTURE(seed);
      const Program program = without_streams(random_program(seed, 2000, 30));
      const Outcome expected = run_program(program, {.scheduler = Scheduler::naive});
      for (const int workers : {1, 2, 4}) CHECK(run_program(program, {.workers = workers}) == expected);
    }
  });
}

TEST_CASE("programs over two vars, where nearly all ops conflict") {
  for (std::uint64_t seed = 0; seed < (kSanitized ? 5 : 20); ++seed) {
    CAPTURE(seed);
    const Program program = random_program(seed, 1000, 2);
    const Outcome expected = run_program(program, {.scheduler = Scheduler::naive});
    for (int workers : {1, 2, 4}) REQUIRE(run_program(program, {.workers = workers}) == expected);
    REQUIRE(run_program(program, {.scheduler = Scheduler::fuzz, .seed = seed}) == expected);
  }
}

TEST_CASE("random programs with ops on streams give the naive engine's result on every scheduler") {
  const auto programs = argument("programs", kPrograms);
  const int ops = static_cast<int>(argument("stream-ops", 1000));
  for (long long i = 0; i < programs; ++i) {
    CAPTURE(i);
    const auto seed = static_cast<std::uint64_t>(i);
    const Program program = random_program(seed, ops, i % 4 == 0 ? 5 : 60, 3);
    const Outcome expected = run_program(without_streams(program), {.scheduler = Scheduler::naive});
    REQUIRE(run_program(program, {.scheduler = Scheduler::naive}) == expected);
    for (int workers : {1, 2, 4, 16}) {
      CAPTURE(workers);
      REQUIRE(run_program(program, {.workers = workers}, seed) == expected);
    }
    REQUIRE(run_program(program, {.scheduler = Scheduler::fuzz, .seed = seed}) == expected);
  }
}

TEST_CASE("one program with ops on streams gives one result under many fuzzed schedules") {
  const Program program = random_program(1, 500, 20, 3);
  const Outcome expected = run_program(without_streams(program), {.scheduler = Scheduler::naive});
  CHECK(std::any_of(expected.errors.begin(), expected.errors.end(),
                    [](const auto& error) { return !error.empty(); }));
  CHECK(std::any_of(expected.errors.begin(), expected.errors.end(),
                    [](const auto& error) { return error.empty(); }));
  for (std::uint64_t seed = 0; seed < kSchedules; ++seed) {
    CAPTURE(seed);
    REQUIRE(run_program(program, {.scheduler = Scheduler::fuzz, .seed = seed}) == expected);
  }
}

// The arguments --from-program=1000 --programs=5000 --wish-ops=300 make a long run.
TEST_CASE(
    "random programs of ops on streams, priorities, groups, bounds and graphs give the naive engine's "
    "result") {
  const auto first = argument("from-program", 0);
  const auto programs = argument("programs", kPrograms);
  const int ops = static_cast<int>(argument("wish-ops", 300));
  int cancelled = 0, failed = 0, clean = 0;
  for (long long i = first; i < first + programs; ++i) {
    CAPTURE(i);
    const auto seed = static_cast<std::uint64_t>(i);
    const Program program = with_wishes(random_program(seed, ops, i % 4 == 0 ? 5 : 40, 3), seed);
    const std::vector<Stretch> plan = random_plan(seed, program);
    const Outcome expected = run_plan(without_streams(program), plan, {.scheduler = Scheduler::naive}, false);
    for (const std::string& error : expected.errors) {
      ++(error.empty() ? clean : error.find("its group") != std::string::npos ? cancelled : failed);
    }
    EngineOptions options;
    if (i % 2 == 0) options.max_ops = 1 + seed % 20;
    if (i % 3 == 0) options.max_bytes = 150;
    if (i % 5 == 0) options.watchdog = 1e6;
    for (int workers : {1, 2, 4}) {
      CAPTURE(workers);
      options.workers = workers;
      REQUIRE(run_plan(program, plan, options, true, seed) == expected);
    }
    options.seed = seed;
    for (const Scheduler scheduler : {Scheduler::naive, Scheduler::fuzz}) {
      options.scheduler = scheduler;
      REQUIRE(run_plan(program, plan, options, true, seed) == expected);
    }
  }
  CHECK(cancelled > 0);
  CHECK(failed > 0);
  CHECK(clean > 0);
}
