// Runs the protocol simulations. Long run: --seeds=N; --seed=S is the first seed.
#include "simulation.h"

#include <string>

#include <doctest/doctest.h>

#include "arguments.h"
#include "protocol_seeds.h"

using namespace heddle::test;
using namespace std::chrono_literals;

namespace {

constexpr long long kLives = kSanitized ? 200 : 4000;

void all_seeds(const char* name, long long everyday, std::string (*simulate)(std::uint64_t)) {
  const long long first = argument("seed", 0), seeds = argument("seeds", everyday);
  int failed = 0;
  for (long long seed = first; seed < first + seeds && failed < 10; ++seed) {
    const std::string problem = simulate(static_cast<std::uint64_t>(seed));
    if (problem.empty()) continue;
    ++failed;
    FAIL_CHECK(problem, "\n  again: comm_tests --test-case='", std::string(name),
               "' --seeds=1 --seed=", seed);
  }
  CHECK(failed == 0);
}

}  // namespace

TEST_CASE("simulation: a seed is one run, also where fibers throw and are killed") {
  const auto run = [](std::uint64_t seed) {
    std::string trace;
    Simulation simulation(seed);
    for (int fiber = 0; fiber < 4; ++fiber) {
      simulation.start(
          [&, fiber] {
            for (int i = 0; i < 5; ++i) {
              try {
                throw i;
              } catch (int thrown) {  // sleeps, and so switches fibers, while an exception is handled
                simulation.sleep_until(simulation.now() + simulation.delay(5ms));
                trace += std::to_string(fiber * 10 + thrown) + " ";
              }
            }
          },
          1ms);
    }
    simulation.at(simulation.now() + 8ms, [&] { simulation.kill(1); });
    CHECK(simulation.run());
    return trace;
  };
  CHECK(run(7) == run(7));
  CHECK(run(7) != run(8));
}

TEST_CASE("simulation: fibers that wait for nothing are found") {
  Simulation simulation(1);
  simulation.start([&] { simulation.sleep(); }, 0ms);
  CHECK_FALSE(simulation.run());
}

TEST_CASE("simulated calls end right, or with the error that they have to end with") {
  all_seeds("simulated calls*", kLives, simulate_calls);
}

TEST_CASE("simulated survivors agree, whatever happens to them") {
  all_seeds("simulated survivors*", kLives, simulate_survivors);
}
