// Fences suffice: random programs over several streams give the result of serial execution.
#include "stream_program.h"

#include <doctest/doctest.h>

#include "arguments.h"

namespace heddle::test {
namespace {

constexpr int kOps = 400;
constexpr int kVars = 12;

// Streams on the CPU that stand for the three lanes of a GPU and one lane of a second device.
std::vector<std::unique_ptr<Stream>> host_streams(HostStreamOptions options) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (const auto& [device, lane] : {std::pair(cpu(0), Lane::compute), std::pair(cpu(0), Lane::copy_in),
                                     std::pair(cpu(0), Lane::copy_out), std::pair(cpu(1), Lane::compute)}) {
    ++options.seed;
    streams.push_back(std::make_unique<HostStream>(device, lane, options));
  }
  return streams;
}

StreamProgram program_of(std::uint64_t seed) { return random_stream_program(seed, kOps, kVars, 4); }

std::uint64_t programs() {
  return static_cast<std::uint64_t>(argument("stream-programs", kSanitized ? 6 : 100));
}

TEST_CASE("random programs on stepped streams leave what serial execution leaves") {
  for (std::uint64_t seed = 1; seed <= programs(); ++seed) {
    CAPTURE(seed);
    const StreamProgram program = program_of(seed);
    const int delay = static_cast<int>(seed % 3);
    const StreamResult result =
        run_on_streams(program, host_streams({.seed = seed, .most_delay = delay, .stepped = true}), seed);
    CHECK((result == run_serially(program)));
  }
}

TEST_CASE("stepped streams do everything in the same order when the seed is the same") {
  for (std::uint64_t seed = 1; seed <= (kSanitized ? 2 : 5); ++seed) {
    CAPTURE(seed);
    auto order = [seed](std::uint64_t schedule) {
      const HostStreamOptions options{.seed = schedule, .most_delay = 2, .stepped = true};
      return run_on_streams(program_of(seed), host_streams(options), schedule).order;
    };
    CHECK(order(1).size() > kOps / 3);
    CHECK((order(1) == order(1)));
    CHECK((order(1) != order(2)));
  }
}

TEST_CASE("random programs on streams with threads leave what serial execution leaves") {
  for (std::uint64_t seed = 1; seed <= programs(); ++seed) {
    CAPTURE(seed);
    const StreamProgram program = program_of(seed);
    const int delay = static_cast<int>(seed % 4) * 3;
    const HostStreamOptions options{.seed = seed, .most_delay = delay, .calls_back = seed % 2 == 0};
    CHECK((run_on_streams(program, host_streams(options), seed) == run_serially(program)));
  }
}

TEST_CASE("random programs on streams that cannot wait for one another leave what serial execution leaves") {
  for (std::uint64_t seed = 1; seed <= programs(); ++seed) {
    CAPTURE(seed);
    const StreamProgram program = program_of(seed);
    std::vector<std::unique_ptr<Stream>> streams =
        host_streams({.seed = seed, .most_delay = 2, .stepped = true});
    for (std::size_t i : {1, 2}) {
      const HostStreamOptions options{.seed = seed + i, .most_delay = 1, .stepped = true, .alone = true};
      streams[i] = std::make_unique<HostStream>(cpu(), Lane::copy_in, options);
    }
    CHECK((run_on_streams(program, std::move(streams), seed) == run_serially(program)));
  }
}

TEST_CASE("random programs have failures on every way that an op can go") {
  int poisoned = 0, clean = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (int failed : run_serially(program_of(seed)).failed) ++(failed >= 0 ? poisoned : clean);
  }
  CHECK(poisoned > 20);
  CHECK(clean > 20);
}

}  // namespace
}  // namespace heddle::test
