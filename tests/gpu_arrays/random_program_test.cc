// Random programs over arrays on the CPU and on GPUs leave, under all schedulers and in all orders of the emulated GPU's work,
// the bits that serial execution on the CPU leaves.
//
// HEDDLE_ARRAY_PROGRAMS=N runs N programs in place of 200, HEDDLE_ARRAY_PROGRAM=SEED one of them.
#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "array_program.h"
#include "problems.h"

using namespace heddle;
using namespace heddle::test;

namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// How a program is run; drawn by its seed.
EngineOptions options_of(std::uint64_t seed) {
  EngineOptions options;
  const std::uint64_t kind = seed % 5;
  options.scheduler = kind == 0 ? Scheduler::naive : kind == 1 ? Scheduler::fuzz : Scheduler::threaded;
  options.seed = seed;
  options.workers = static_cast<int>(seed / 5 % 4) + 1;
  return options;
}

struct Count {
  int values = 0, poisoned = 0, refused = 0;  // lines
};

// What is wrong with the program; "" if nothing.
std::string fault(const ArrayProgram& program, Count& count) {
  std::string wrong;
  // A yield takes long where other programs run.
  reorder(program.seed, program.seed / 2 % 2 == 0, program.seed % 8 == 7 ? 2 : 0);
  const auto expected = run_array_program(program, {.scheduler = Scheduler::naive}, false, wrong);
  const auto found = run_array_program(program, options_of(program.seed), true, wrong);
  for (std::size_t i = 0; i < expected.size() && i < found.size(); ++i) {
    if (expected[i] == found[i]) continue;
    wrong += "line " + std::to_string(i) + ": " + found[i] + "\n  on the CPU: " + expected[i] + "\n";
    break;
  }
  if (expected.size() != found.size()) wrong += "another number of lines\n";
  for (const std::string& line : expected) {
    ++(line.find("error: ") != 0         ? count.values
       : line.find("fails") != line.npos ? count.poisoned
                                         : count.refused);
  }
  return wrong + problems();
}

// Whether it fails in one of some runs: threads make them differ.
bool fails(const ArrayProgram& program) {
  Count ignored;
  for (int i = 0; i < 10; ++i) {
    if (!fault(program, ignored).empty()) return true;
  }
  return false;
}

// Leaves out parts, from halves to single steps, as long as the program fails, for some seconds: on a GPU that is lost or slow it
// would take for ever.
ArrayProgram shrunken(ArrayProgram program) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  for (std::size_t part = 64; part > 0; part /= 2) {
    for (std::size_t thread = 0; thread < program.threads.size(); ++thread) {
      for (std::size_t at = 0;
           at < program.threads[thread].size() && std::chrono::steady_clock::now() < end;) {
        ArrayProgram less = program;
        std::vector<Step>& steps = less.threads[thread];
        const auto begin = steps.begin() + static_cast<std::ptrdiff_t>(at);
        steps.erase(begin, steps.end() - begin < static_cast<std::ptrdiff_t>(part)
                               ? steps.end()
                               : begin + static_cast<std::ptrdiff_t>(part));
        if (fails(less)) {
          program = std::move(less);
        } else {
          at += part;
        }
      }
    }
  }
  return program;
}

TEST_CASE("random programs over arrays on GPUs have the CPU's values") {
  const int gpus = std::min(gpu_count(), 8);
  const std::uint64_t count = from_environment("HEDDLE_ARRAY_PROGRAMS", 200);
  const std::uint64_t first = from_environment("HEDDLE_ARRAY_PROGRAM", 0);
  const std::uint64_t end = std::getenv("HEDDLE_ARRAY_PROGRAM") ? first + 1 : count;
  int failed = 0;
  Count lines;
  for (std::uint64_t seed = first; seed < end && failed < 3; ++seed) {
    const ArrayProgram program = random_array_program(seed, 60, gpus);
    const std::string wrong = fault(program, lines);
    if (wrong.empty()) continue;
    ++failed;
    const std::string text = wrong + "HEDDLE_ARRAY_PROGRAM=" + std::to_string(seed) +
                             " runs it alone. What is left of it:\n" + to_string(shrunken(program));
    FAIL_CHECK(text);
  }
  if (end - first < 20) return;
  CHECK(lines.values > 0);
  CHECK(lines.poisoned > 0);
  CHECK(lines.refused > 0);
  MESSAGE(lines.values, " values, ", lines.poisoned, " errors of ops, ", lines.refused, " refusals");
}

}  // namespace
