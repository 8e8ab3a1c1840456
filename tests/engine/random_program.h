// Random programs of ops over a few vars, to be run on any engine and compared bit by bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <heddle/engine.h>

namespace heddle::test {

enum class Kind { sync, async_inline, async_elsewhere, prepared };

struct ProgramOp {
  Kind kind;
  bool fails;
  std::vector<int> reads;    // 0 to 19, with repeats
  std::vector<int> mutates;  // 0 to 3, sometimes in reads too
};

struct Program {
  int vars;
  std::vector<ProgramOp> ops;
  std::vector<int> waits;  // for every op: a var to wait for after pushing it, or -1
};

Program random_program(std::uint64_t seed, int ops, int vars);

// What a run leaves behind: for every var its value, and the op whose error poisons it with the path it took.
struct Outcome {
  std::vector<std::uint64_t> values;
  std::vector<std::string> errors;
  bool operator==(const Outcome&) const = default;
};

Outcome run_program(const Program& program, EngineOptions options);

// Some ops in a row: pushed, or launched as a graph that is captured when it is launched for the first time.
struct Stretch {
  std::size_t begin, end;
  bool graph;
};

// Stretches of the program's ops in random order: graphs several times among ops pushed once.
std::vector<Stretch> random_plan(std::uint64_t seed, const Program& program);

// As run_program; without `capture` the ops of the graphs are pushed like all others.
Outcome run_plan(const Program& program, const std::vector<Stretch>& plan, EngineOptions options,
                 bool capture);

}  // namespace heddle::test
