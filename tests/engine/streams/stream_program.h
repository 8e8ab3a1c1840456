// Random programs of CPU ops, stream ops and copies that are ordered by fences only: a single-threaded driver
// does the engine's part in the simplest way, and the result is compared with serial execution.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <heddle/host_stream.h>

namespace heddle::test {

struct StreamOp {
  enum class Kind { cpu, work, copy } kind = Kind::cpu;
  enum class Fails { no, issuing, late } fails = Fails::no;
  std::size_t stream = 0;      // index of the stream, for work and copy
  std::vector<int> reads{};    // one for a copy
  std::vector<int> mutates{};  // one other for a copy
};

struct StreamProgram {
  int vars;
  std::vector<StreamOp> ops;
};

StreamProgram random_stream_program(std::uint64_t seed, int ops, int vars, std::size_t streams);

struct StreamResult {
  std::vector<std::uint64_t> values;  // 0 if the var is poisoned
  std::vector<int> failed;            // op whose failure poisons the var, or -1
  std::vector<int> order{};           // execution order of the ops; not compared
  bool operator==(const StreamResult& other) const {
    return values == other.values && failed == other.failed;
  }
};

StreamResult run_serially(const StreamProgram& program);

// `seed` chooses the next op among those that may run, and the stream that is stepped.
StreamResult run_on_streams(const StreamProgram& program, std::vector<std::unique_ptr<Stream>> streams,
                            std::uint64_t seed);

}  // namespace heddle::test
