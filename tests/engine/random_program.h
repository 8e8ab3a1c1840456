// Random programs of ops over a few vars, for comparison of schedulers bit by bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <heddle/engine.h>

namespace heddle::test {

enum class Kind { sync, async_inline, async_elsewhere, prepared, on_stream, copy };

// The group of an op. Groups that are cancelled or overdue are so before the program starts, so that the
// result depends on the program alone.
enum class Member { of_none, of_live, of_cancelled, of_overdue };

struct ProgramOp {
  Kind kind;
  bool fails;
  std::vector<int> reads;  // indices of 0 to 19 vars that the op reads, with repeats; a copy reads one var
  // Indices of 0 to 3 vars that the op mutates, sometimes also vars that it reads. A copy mutates one var,
  // another than it reads.
  std::vector<int> mutates;
  std::size_t stream = 0;  // index of the stream; only for on_stream and copy
  int priority = 0;
  std::size_t bytes = 0;
  Member member = Member::of_none;  // the op's group; ops in graphs have none
};

struct Program {
  int vars;
  std::vector<ProgramOp> ops;
  // For each op the var that the program waits for after the op's push; -1: it does not wait.
  std::vector<int> waits;
  std::size_t streams = 0;  // number of streams; 0: the ops of streams run on the CPU
};

Program random_program(std::uint64_t seed, int ops, int vars, std::size_t streams = 0);

// The given program with random priorities, bytes and groups for its ops.
Program with_wishes(Program program, std::uint64_t seed);

// The result of a run: for each var its value, 0 if the var is poisoned, and its error: the op that has
// failed, with the error's path.
struct Outcome {
  std::vector<std::uint64_t> values;
  std::vector<std::string> errors;
  bool operator==(const Outcome&) const = default;
};

// Runs the program. Under naive and fuzz the streams are the engine's own; otherwise each has a thread, and
// delays drawn from `seed`.
Outcome run_program(const Program& program, EngineOptions options, std::uint64_t seed = 0);

// A range of a program's ops. It is pushed, or it is a graph that is captured at its first launch and then
// launched.
struct Stretch {
  std::size_t begin, end;
  bool graph;
};

// A list of stretches of the program's ops in random order. Graphs are launched several times, among ops that
// are pushed once.
std::vector<Stretch> random_plan(std::uint64_t seed, const Program& program);

// Like run_program, but runs the stretches of the plan. Without `capture` the ops of graphs are pushed
// instead of launched.
Outcome run_plan(const Program& program, const std::vector<Stretch>& plan, EngineOptions options,
                 bool capture, std::uint64_t seed = 0);

}  // namespace heddle::test
