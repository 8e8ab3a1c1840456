// The work of engine_bench: a list of ops on numbered cells, the same for every subject.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace heddle::bench {

// One var's data, alone on its cache line.
struct alignas(64) Cell {
  std::uint64_t value = 0;
};

struct ProgramOp {
  std::uint32_t mutate;
  std::uint32_t first_read, read_count;  // in Program::read_cells
};

// Busy work whose result depends on every step.
std::uint64_t spin(std::uint64_t value, std::uint64_t steps);

struct Program {
  std::uint32_t cells = 0;
  std::uint64_t steps = 0;  // of busy work in each op
  std::uint64_t (*work)(std::uint64_t,
                        std::uint64_t) = spin;  // which all subjects call, whatever compiled them
  std::vector<ProgramOp> ops;
  std::vector<std::uint32_t> read_cells;

  std::span<const std::uint32_t> reads(const ProgramOp& op) const {
    return std::span(read_cells).subspan(op.first_read, op.read_count);
  }
  void add(std::uint32_t mutate, std::span<const std::uint32_t> reads);
};

Program chain(std::uint32_t ops);        // every op mutates the same cell
Program independent(std::uint32_t ops);  // 1024 cells in turn
Program fan(std::uint32_t ops);          // 64 ops read one cell, then one op reads their 64 and mutates it
Program dag(std::uint32_t ops);          // 1000 cells, each op mutates one and reads 0 to 4 others, at random

// Every op mutates cell 0 and reads so many of 1024 others in turn: a chain with `beside` vars more an op.
Program chain_beside(std::uint32_t ops, std::uint32_t beside);

// A one-dimensional stencil of so many cells, double buffered: an op mutates a cell of this step and reads that cell
// and its neighbours of the step before.
Program stencil(std::uint32_t ops, std::uint32_t width);

// Steps of busy work that take this long on an idle core.
std::uint64_t spin_steps(double seconds);

// The body of op number `index`. No two orders of conflicting ops give the same values, no lost op goes unseen.
inline void run_op(const Program& program, Cell* cells, std::uint32_t index) {
  const ProgramOp& op = program.ops[index];
  std::uint64_t value = cells[op.mutate].value * 0x9e3779b97f4a7c15U + index + 1;
  for (std::uint32_t read : program.reads(op)) value = value * 31 + cells[read].value;
  cells[op.mutate].value = program.steps > 0 ? program.work(value, program.steps) : value;
}

// Of all cells. What running the ops one by one gives is what every subject must give.
std::uint64_t checksum(std::span<const Cell> cells);
std::uint64_t serial_checksum(const Program& program);

// What a C library gives to the function that runs an op.
struct OpArgument {
  const Program* program;
  Cell* cells;
  std::uint32_t index;
  void run() const { run_op(*program, cells, index); }
};

// One for each op of the program.
std::vector<OpArgument> op_arguments(const Program& program, Cell* cells);

}  // namespace heddle::bench
