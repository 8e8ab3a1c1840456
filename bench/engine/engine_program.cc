#include "engine/engine_program.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

#include "support/support.h"

namespace heddle::bench {

void Program::add(std::uint32_t mutate, std::span<const std::uint32_t> reads) {
  ops.push_back(
      {mutate, static_cast<std::uint32_t>(read_cells.size()), static_cast<std::uint32_t>(reads.size())});
  read_cells.insert(read_cells.end(), reads.begin(), reads.end());
  cells = std::max(cells, mutate + 1);
  for (std::uint32_t read : reads) cells = std::max(cells, read + 1);
}

Program chain(std::uint32_t ops) {
  Program program;
  for (std::uint32_t i = 0; i < ops; ++i) program.add(0, {});
  return program;
}

Program independent(std::uint32_t ops) {
  Program program;
  for (std::uint32_t i = 0; i < ops; ++i) program.add(i % 1024, {});
  return program;
}

Program fan(std::uint32_t ops) {
  constexpr std::uint32_t kWidth = 64;
  const std::array<std::uint32_t, 1> source{0};
  std::array<std::uint32_t, kWidth> leaves;
  std::iota(leaves.begin(), leaves.end(), 1);
  Program program;
  while (program.ops.size() + kWidth + 1 <= ops) {
    for (std::uint32_t leaf : leaves) program.add(leaf, source);
    program.add(0, leaves);
  }
  return program;
}

Program dag(std::uint32_t ops) {
  constexpr std::uint32_t kCells = 1000;
  std::mt19937 random(42);
  Program program;
  for (std::uint32_t i = 0; i < ops; ++i) {
    const std::uint32_t mutate = random() % kCells;
    std::vector<std::uint32_t> reads;
    for (std::uint32_t left = random() % 5; left > 0; --left) {
      const std::uint32_t read = random() % kCells;
      if (read != mutate && std::find(reads.begin(), reads.end(), read) == reads.end()) reads.push_back(read);
    }
    program.add(mutate, reads);
  }
  return program;
}

Program chain_beside(std::uint32_t ops, std::uint32_t beside) {
  constexpr std::uint32_t kOthers = 1024;
  std::vector<std::uint32_t> reads(beside);
  std::uint32_t next = 0;
  Program program;
  for (std::uint32_t i = 0; i < ops; ++i) {
    for (std::uint32_t& read : reads) read = 1 + next++ % kOthers;
    program.add(0, reads);
  }
  return program;
}

Program stencil(std::uint32_t ops, std::uint32_t width) {
  std::vector<std::uint32_t> reads;
  Program program;
  for (std::uint32_t i = 0; i < ops; ++i) {
    const std::uint32_t column = i % width, now = i / width % 2 * width, before = width - now;
    reads.clear();
    for (std::uint32_t read = column > 0 ? column - 1 : 0; read < std::min(column + 2, width); ++read) {
      reads.push_back(before + read);
    }
    program.add(now + column, reads);
  }
  return program;
}

std::uint64_t spin(std::uint64_t value, std::uint64_t steps) {
  for (std::uint64_t i = 0; i < steps; ++i) value = value * 6364136223846793005U + 1442695040888963407U;
  return value;
}

std::uint64_t spin_steps(double seconds) {
  constexpr std::uint64_t kSteps = 1'000'000;
  volatile std::uint64_t value = 1;
  double best = 1;
  for (int i = 0; i < 10; ++i) {
    const double start = now();
    value = spin(value, kSteps);
    best = std::min(best, now() - start);
  }
  return static_cast<std::uint64_t>(seconds / best * kSteps);
}

std::uint64_t checksum(std::span<const Cell> cells) {
  std::uint64_t sum = 0;
  for (const Cell& cell : cells) sum = sum * 31 + cell.value;
  return sum;
}

std::uint64_t serial_checksum(const Program& program) {
  std::vector<Cell> cells(program.cells);
  for (std::uint32_t i = 0; i < program.ops.size(); ++i) run_op(program, cells.data(), i);
  return checksum(cells);
}

std::vector<OpArgument> op_arguments(const Program& program, Cell* cells) {
  std::vector<OpArgument> arguments;
  arguments.reserve(program.ops.size());
  for (std::uint32_t i = 0; i < program.ops.size(); ++i) arguments.push_back({&program, cells, i});
  return arguments;
}

}  // namespace heddle::bench
