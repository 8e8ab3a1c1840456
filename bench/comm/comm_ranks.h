// The ranks of a library, as comm_bench controls them: processes that only work on command.
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

namespace heddle::bench {

// How to start the ranks of a library: one command for each rank, or one command, such as mpirun, for all.
struct RankCommands {
  std::vector<std::vector<std::string>> words;
  std::string control;  // path of comm_bench's unix socket, which the commands pass to the ranks
};

struct CommSample {
  double seconds = 0;  // seconds per call of the slowest rank
  double core = 0;     // CPU seconds (user and system) per call, of the rank that uses the most
  long wrong = 0;      // wrong elements in the checked calls, over all ranks
};

// The ranks as processes, which the destructor ends.
class Ranks {
 public:
  // Starts the ranks and waits until all have connected. Throws std::runtime_error if one exits, or needs
  // over 30 seconds.
  Ranks(const std::string& name, int size, const RankCommands& commands);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  // Makes `calls` calls on all ranks, back to back. Throws std::runtime_error if a rank reports an error,
  // exits or is silent for two minutes.
  CommSample run(const std::string& collective, const std::string& variant, std::size_t count, long calls);

 private:
  void accept_all(int listener, int size);
  std::string hear(int connection, int milliseconds);
  [[noreturn]] void fail(const std::string& what);
  void stop();

  std::string name_;
  std::vector<pid_t> processes_;
  std::vector<int> connections_;  // indexed by rank
  bool failed_ = false;
};

}  // namespace heddle::bench
