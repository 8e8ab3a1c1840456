// The ranks of a library, as comm_bench sees them: processes that work only when told to.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

namespace heddle::bench {

// How to start the ranks of a library: one command for each rank, or one that starts them all (mpirun).
struct RankCommands {
  std::vector<std::vector<std::string>> words;
  std::string control;  // the unix socket that these commands name
};

struct CommSample {
  double seconds = 0;  // a call, of the slowest rank
  double core = 0;  // seconds of cores that a call takes, threads and kernel, of the rank with most of them
  long wrong = 0;   // elements of the checked calls that were not what they should have been, on all ranks
};

// Its processes end with it.
class Ranks {
 public:
  // Starts them and waits until all have come. Throws std::runtime_error if one ends or does not come in 30 seconds.
  Ranks(const std::string& name, int size, const RankCommands& commands);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  // So many calls on all ranks, back to back. Throws std::runtime_error if a rank says so, ends or is silent for two minutes.
  CommSample run(const std::string& collective, const std::string& variant, std::size_t count, long calls);

 private:
  void accept_all(int listener, int size);
  std::string hear(int connection, int milliseconds);
  [[noreturn]] void fail(const std::string& what);
  void stop();

  std::string name_;
  std::vector<pid_t> processes_;
  std::vector<int> connections_;  // by rank
  bool failed_ = false;
};

}  // namespace heddle::bench
