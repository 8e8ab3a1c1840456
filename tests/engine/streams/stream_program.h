// Random programs of CPU ops, stream ops and copies that only fences order. A driver with a single thread
// does the engine's part in the simplest way. Its result must equal that of serial execution.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <heddle/host_stream.h>

namespace heddle::test {

struct StreamOp {
  enum class Kind { cpu, work, copy } kind = Kind::cpu;
  enum class Fails { no, issuing, late } fails = Fails::no;
  std::size_t stream = 0;    // index of the stream; only for work and copy
  std::vector<int> reads{};  // indices of the vars that the op reads; a copy reads one
  // Indices of the vars that the op mutates; a copy mutates one, another than it reads.
  std::vector<int> mutates{};
};

struct StreamProgram {
  int vars;
  std::vector<StreamOp> ops;
};

StreamProgram random_stream_program(std::uint64_t seed, int ops, int vars, std::size_t streams);

struct StreamResult {
  std::vector<std::uint64_t> values;  // for each var its value; 0 if the var is poisoned
  std::vector<int> failed;   // for each var the op whose failure poisons it; -1: the var is not poisoned
  std::vector<int> order{};  // the order in which the ops ran; operator== ignores it
  bool operator==(const StreamResult& other) const {
    return values == other.values && failed == other.failed;
  }
};

StreamResult run_serially(const StreamProgram& program);

// Runs the program on these streams. `seed` decides which of the ops that may run is next, and which stream
// is stepped.
StreamResult run_on_streams(const StreamProgram& program, std::vector<std::unique_ptr<Stream>> streams,
                            std::uint64_t seed);

}  // namespace heddle::test
