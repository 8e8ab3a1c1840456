// Random programs of ops over a few vars, to be run on any engine and compared bit by bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <heddle/engine.h>

namespace heddle::test {

enum class Kind { sync, async_inline, async_elsewhere, prepared, on_stream, copy };

// Groups are given up before the program starts, or never: what comes out depends on the program alone.
enum class Member { of_none, of_live, of_cancelled, of_overdue };

struct ProgramOp {
  Kind kind;
  bool fails;
  std::vector<int> reads;    // 0 to 19, with repeats; a copy: one
  std::vector<int> mutates;  // 0 to 3, sometimes in reads too; a copy: one, another
  std::size_t stream = 0;    // of on_stream and copy
  int priority = 0;
  std::size_t bytes = 0;
  Member member = Member::of_none;  // of the group that it is pushed with; ops in graphs are in none
};

struct Program {
  int vars;
  std::vector<ProgramOp> ops;
  std::vector<int> waits;   // for every op: a var to wait for after pushing it, or -1
  std::size_t streams = 0;  // 0: what is for streams runs on the CPU
};

Program random_program(std::uint64_t seed, int ops, int vars, std::size_t streams = 0);

// The same with priorities, bytes and groups.
Program with_wishes(Program program, std::uint64_t seed);

// What a run leaves behind: for every var its value, 0 if it is poisoned, and the op whose error poisons it with the path it took.
struct Outcome {
  std::vector<std::uint64_t> values;
  std::vector<std::string> errors;
  bool operator==(const Outcome&) const = default;
};

// Streams are the engine's own under naive and fuzz, else they have threads and delays drawn from `seed`.
Outcome run_program(const Program& program, EngineOptions options, std::uint64_t seed = 0);

// Some ops in a row: pushed, or launched as a graph that is captured when it is launched for the first time.
struct Stretch {
  std::size_t begin, end;
  bool graph;
};

// Stretches of the program's ops in random order: graphs several times among ops pushed once.
std::vector<Stretch> random_plan(std::uint64_t seed, const Program& program);

// As run_program; without `capture` the ops of the graphs are pushed like all others. Graphs have no ops on streams.
Outcome run_plan(const Program& program, const std::vector<Stretch>& plan, EngineOptions options,
                 bool capture, std::uint64_t seed = 0);

}  // namespace heddle::test
