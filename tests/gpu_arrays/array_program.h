// Random programs over arrays on the CPU and on GPUs, which several host threads push. The same program runs with all arrays
// on the CPU, for comparison bit by bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <heddle/engine.h>

namespace heddle::test {

enum class Action {
  create,    // to = an array with new values
  unary,     // to = f(a)
  binary,    // to = f(a, b)
  number,    // to = f(a, number)
  select,    // to = where(a < b, a, number)
  view,      // to = a view of a
  assign,    // a view of to = a
  fill,      // a view of to = number
  in_place,  // to += a
  copy_to,   // to = a on another device
  astype,    // to = a in another dtype
  copy,      // to = a.copy()
  read,      // the values of a
  drop,      // to = nothing
  gradient,  // to = the gradient of an expression of a and b
  host_op,   // an op on the CPU: to = 2 to + a
  fail,      // an op that fails, and mutates to
  wait,      // for to
  wait_all,  // for everything
};

// What a host thread does once. `seed` draws what is left open. A step whose operands are missing does nothing, and one that
// Heddle refuses leaves its text: so any part of a program is a program.
struct Step {
  Action action;
  int to, a, b;  // slots: places for arrays
  std::uint64_t seed;
};

struct ArrayProgram {
  std::uint64_t seed = 0;
  std::int64_t rows = 1, columns = 1;
  std::vector<int> gpus;  // that are used
  // Each thread has kSlots slots of its own. The first kShared ones hold arrays that all threads read, and none changes.
  std::vector<std::vector<Step>> threads;
};
constexpr int kSlots = 10, kShared = 2;

ArrayProgram random_array_program(std::uint64_t seed, int steps, int gpus);
std::string to_string(const ArrayProgram& program);  // a line a step

// Runs the program on a new engine. Returns what it has read, and the values or errors of all arrays at the end, a line each.
// `on_gpus` false: all arrays are on the CPU. Fills `problem` if the host has waited for a GPU, or if GPUs' memory is still in
// use after the last array has ended.
std::vector<std::string> run_array_program(const ArrayProgram& program, const EngineOptions& options,
                                           bool on_gpus, std::string& problem);

}  // namespace heddle::test
