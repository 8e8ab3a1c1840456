// The ops that engine_bench runs: a list of ops on numbered cells, the same for every subject.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace heddle::bench {

// The data of one var, on a cache line of its own.
struct alignas(64) Cell {
  std::uint64_t value = 0;
};

struct ProgramOp {
  std::uint32_t mutate;
  std::uint32_t first_read, read_count;  // where Program::read_cells lists the cells that this op reads
};

// Busy work whose result depends on every step.
std::uint64_t spin(std::uint64_t value, std::uint64_t steps);

struct Program {
  std::uint32_t cells = 0;
  std::uint64_t steps = 0;  // steps of busy work in each op
  // The busy work of an op. A pointer, so that all subjects run the same machine code, although different
  // compilers build them.
  std::uint64_t (*work)(std::uint64_t, std::uint64_t) = spin;
  std::vector<ProgramOp> ops;
  std::vector<std::uint32_t> read_cells;

  std::span<const std::uint32_t> reads(const ProgramOp& op) const {
    return std::span(read_cells).subspan(op.first_read, op.read_count);
  }
  void add(std::uint32_t mutate, std::span<const std::uint32_t> reads);
};

Program chain(std::uint32_t ops);        // every op mutates the same cell
Program independent(std::uint32_t ops);  // ops mutate 1024 cells round-robin
// Repeats: 64 ops read cell 0 and mutate a cell each, then one op mutates cell 0 and reads those 64 cells.
Program fan(std::uint32_t ops);
Program dag(std::uint32_t ops);  // 1000 cells, each op mutates one and reads 0 to 4 others, at random

// Every op mutates cell 0 and reads `beside` of 1024 other cells, round-robin: a chain whose ops have
// `beside` more vars.
Program chain_beside(std::uint32_t ops, std::uint32_t beside);

// A one-dimensional stencil over `width` cells, double buffered: an op mutates a cell of this step and reads
// that cell and its neighbours of the previous step.
Program stencil(std::uint32_t ops, std::uint32_t width);

// The number of steps of busy work that takes `seconds` on an idle core.
std::uint64_t spin_steps(double seconds);

// The body of op `index`. Reordering conflicting ops, or losing one, changes the cells' values.
inline void run_op(const Program& program, Cell* cells, std::uint32_t index) {
  const ProgramOp& op = program.ops[index];
  std::uint64_t value = cells[op.mutate].value * 0x9e3779b97f4a7c15U + index + 1;
  for (std::uint32_t read : program.reads(op)) value = value * 31 + cells[read].value;
  cells[op.mutate].value = program.steps > 0 ? program.work(value, program.steps) : value;
}

// A hash of all cells. Every subject must give the hash of the serial run.
std::uint64_t checksum(std::span<const Cell> cells);
std::uint64_t serial_checksum(const Program& program);

// The argument of the C callback that runs an op.
struct OpArgument {
  const Program* program;
  Cell* cells;
  std::uint32_t index;
  void run() const { run_op(*program, cells, index); }
};

// The arguments of all ops of the program, in the order of the ops.
std::vector<OpArgument> op_arguments(const Program& program, Cell* cells);

}  // namespace heddle::bench
