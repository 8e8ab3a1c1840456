// One rank of a library that comm_bench measures: a process of its own, which works only when it is told to.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace heddle::bench {

// What is to be done with so many f32. Ranks of one set always get the same.
struct CommTask {
  // all_reduce ...; burst, kBurst all_reduces of that size, at once where the library can; compute, work on one thread;
  // overlap, that beside an all_reduce; in_turn, that and then an all_reduce
  std::string collective;
  // What only the library knows: an algorithm, a kind of memory. Of compute and overlap: ROUNDS of work, or ROUNDS/CALLS
  // with so many calls of the library in between.
  std::string variant;
  std::size_t count =
      0;  // elements of the larger one of what is sent and what is received; a multiple of the ranks
};

constexpr int kBurst = 64;

// A task with its memory. `in` and `out` are the same where the collective works in place.
struct CommJob {
  float* in = nullptr;
  float* out = nullptr;
  std::function<void()> call;  // blocks until the result is there; owns the memory
};

// A library with its ranks connected.
class CommLibrary {
 public:
  virtual ~CommLibrary() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Throws std::runtime_error for what the library has not.
  virtual CommJob prepare(const CommTask& task) = 0;
  virtual void barrier() = 0;
};

// In place for all_reduce, broadcast and reduce, apart for the others, whose smaller side is a size'th of the larger.
// The memory is malloc's; `keep` holds it for the job's call.
struct CommBuffers {
  std::vector<float> first, second;
  CommBuffers(const CommTask& task, int size);
  float* in() { return first.data(); }
  float* out() { return second.empty() ? first.data() : second.data(); }
};

// ROUNDS and CALLS of a variant, and the work: arithmetic that touches no memory, some nanoseconds a round.
struct Work {
  explicit Work(const std::string& variant);
  long rounds = 0, calls = 0;
};
void work(long rounds);

struct RankArguments {
  std::string control;  // the unix socket of comm_bench
  std::string meeting;  // a path for the library's own rendezvous
  std::string backend;
  int rank = -1, size = 0;  // -1: the library knows
};

// Parses the words that comm_bench starts ranks with, and keeps the process on core `rank` where it is told to. Throws
// std::runtime_error.
RankArguments rank_arguments(int argc, char** argv);

// Says hello and does what comm_bench says, until it hangs up. Each command is a line:
//   COLLECTIVE VARIANT COUNT CALLS      answered by: seconds a call, wrong elements, seconds of cores a call
// or by "error" and what went wrong. Between two commands the process sleeps in a read.
void serve(CommLibrary& library, const RankArguments& arguments);

// main() of a rank: `make` gives the library. Says on stderr what went wrong, and returns the exit status.
int run_rank(int argc, char** argv, const std::function<void(const RankArguments&)>& run);

}  // namespace heddle::bench
