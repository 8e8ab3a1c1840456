// Random programs of ops over a few vars, for comparison of schedulers bit by bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <heddle/engine.h>

namespace heddle::test {

enum class Kind { sync, async_inline, async_elsewhere, prepared, on_stream, copy };

// Cancelled and overdue groups are so before the program starts, so that the result depends on the program
// alone.
enum class Member { of_none, of_live, of_cancelled, of_overdue };

struct ProgramOp {
  Kind kind;
  bool fails;
  std::vector<int> reads;    // 0 to 19 vars, with repeats; a copy reads one
  std::vector<int> mutates;  // 0 to 3 vars, sometimes also in reads; a copy mutates one other
  std::size_t stream = 0;    // index of the stream, for on_stream and copy
  int priority = 0;
  std::size_t bytes = 0;
  Member member = Member::of_none;  // group of the op; ops in graphs have none
};

struct Program {
  int vars;
  std::vector<ProgramOp> ops;
  std::vector<int> waits;   // for each op a var to wait for after its push, or -1
  std::size_t streams = 0;  // 0: stream ops run on the CPU
};

Program random_program(std::uint64_t seed, int ops, int vars, std::size_t streams = 0);

// The same program with random priorities, bytes and groups.
Program with_wishes(Program program, std::uint64_t seed);

// The result of a run: each var's value (0 if poisoned), and the op whose error poisons it, with the error's
// path.
struct Outcome {
  std::vector<std::uint64_t> values;
  std::vector<std::string> errors;
  bool operator==(const Outcome&) const = default;
};

// Streams are the engine's own under naive and fuzz; otherwise they have threads, and delays drawn from
// `seed`.
Outcome run_program(const Program& program, EngineOptions options, std::uint64_t seed = 0);

// A range of ops that is pushed, or launched as a graph, which is captured at its first launch.
struct Stretch {
  std::size_t begin, end;
  bool graph;
};

// Stretches of the program's ops in random order: graphs are launched several times, among ops that are
// pushed once.
std::vector<Stretch> random_plan(std::uint64_t seed, const Program& program);

// As run_program; without `capture` the graphs' ops are pushed too. Graphs have no ops on streams.
Outcome run_plan(const Program& program, const std::vector<Stretch>& plan, EngineOptions options,
                 bool capture, std::uint64_t seed = 0);

}  // namespace heddle::test
