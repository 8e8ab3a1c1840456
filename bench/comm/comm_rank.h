// One rank of a library that comm_bench measures: a process that only works on command.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace heddle::bench {

// One collective on `count` f32. All ranks get the same task.
struct CommTask {
  // A collective such as all_reduce; or burst: kBurst all_reduces of this size, concurrent where the library
  // can; compute: work on one thread; overlap: compute during an all_reduce; in_turn: compute, then an
  // all_reduce.
  std::string collective;
  // Known to the library only: an algorithm or a kind of memory. For compute, overlap and in_turn: ROUNDS of
  // work, or ROUNDS/CALLS with CALLS progress calls of the library in between.
  std::string variant;
  // Number of elements of the larger of input and output; a multiple of the number of ranks.
  std::size_t count = 0;
};

constexpr int kBurst = 64;

// A prepared collective with its memory. `in` and `out` are equal if the collective works in place.
struct CommJob {
  float* in = nullptr;
  float* out = nullptr;
  // Makes the collective call and returns when the result is complete. Owns the memory of `in` and `out`.
  std::function<void()> call;
};

// A communication library in this process, which is one of its connected ranks.
class CommLibrary {
 public:
  virtual ~CommLibrary() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Throws std::runtime_error if the library does not support the task.
  virtual CommJob prepare(const CommTask& task) = 0;
  virtual void barrier() = 0;
};

// Buffers from malloc: one for all_reduce, broadcast and reduce, which work in place; two for other
// collectives, where the smaller has 1/size of the larger's elements.
struct CommBuffers {
  std::vector<float> first, second;
  CommBuffers(const CommTask& task, int size);
  float* in() { return first.data(); }
  float* out() { return second.empty() ? first.data() : second.data(); }
};

// Parses a variant's ROUNDS and CALLS. work() is arithmetic without memory accesses, some nanoseconds per
// round.
struct Work {
  explicit Work(const std::string& variant);
  long rounds = 0, calls = 0;
};
void work(long rounds);

struct RankArguments {
  std::string control;  // path of comm_bench's unix socket
  std::string meeting;  // path of the file or socket by which the library's ranks find each other
  std::string backend;
  int rank = -1, size = 0;  // rank -1: the library determines its rank itself
};

// Parses the arguments that comm_bench starts ranks with, and pins the process to core `rank` if asked.
// Throws std::runtime_error.
RankArguments rank_arguments(int argc, char** argv);

// Connects to comm_bench and executes its commands until the connection closes. Each command is a line:
//   COLLECTIVE VARIANT COUNT CALLS      answered by: seconds a call, wrong elements, seconds of cores a call
// or by "error" and the reason. "seconds of cores" is CPU time. Between commands the process waits in read.
void serve(CommLibrary& library, const RankArguments& arguments);

// The main() of a rank: `run` makes the library and serves. Prints errors to stderr and returns the exit
// status.
int run_rank(int argc, char** argv, const std::function<void(const RankArguments&)>& run);

}  // namespace heddle::bench
