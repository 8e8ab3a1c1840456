// Random programs of ops on the CPU, ops on streams and copies, run through fences alone: a driver of one thread does
// what an engine has to do with them, in the simplest way, and the result is compared with serial execution.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <heddle/host_stream.h>

namespace heddle::test {

struct StreamOp {
  enum class Kind { cpu, work, copy } kind = Kind::cpu;
  enum class Fails { no, issuing, late } fails = Fails::no;
  std::size_t stream = 0;      // of work and copy
  std::vector<int> reads{};    // a copy: one
  std::vector<int> mutates{};  // a copy: one, another
};

struct StreamProgram {
  int vars;
  std::vector<StreamOp> ops;
};

StreamProgram random_stream_program(std::uint64_t seed, int ops, int vars, std::size_t streams);

struct StreamResult {
  std::vector<std::uint64_t> values;  // 0 for a poisoned var
  std::vector<int> failed;            // the op whose failure poisons the var, or -1
  std::vector<int> order{};           // in which the work was done; not compared
  bool operator==(const StreamResult& other) const {
    return values == other.values && failed == other.failed;
  }
};

StreamResult run_serially(const StreamProgram& program);

// `seed` picks which of the ops that may run goes next, and, where streams are stepped, which stream moves.
StreamResult run_on_streams(const StreamProgram& program, std::vector<std::unique_ptr<Stream>> streams,
                            std::uint64_t seed);

}  // namespace heddle::test
