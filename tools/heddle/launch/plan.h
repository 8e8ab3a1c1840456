// The placement of ranks on hosts, and their environment variables.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace heddle::tool {

struct Host {
  std::string name;  // empty: this host
  int slots = 1;
};

// "a:2,b,localhost:2". Throws std::runtime_error.
std::vector<Host> parse_hosts(const std::string& list);

// The role of a process in a job. Servers and their scheduler end after the ranks.
enum class ProcessKind { rank, server, scheduler };

struct RankPlan {
  int rank = 0;
  std::string host{};  // empty: this host
  int local_rank = 0, local_size = 1;
  ProcessKind kind = ProcessKind::rank;  // the role; of a server, `rank` is its number in the job's stores
};

// The ranks in order, host after host. `ranks` 0: as many as there are slots. Throws std::runtime_error.
std::vector<RankPlan> place_ranks(const std::vector<Host>& hosts, int ranks);

using Environment = std::map<std::string, std::string>;

// HEDDLE_RANK, HEDDLE_SIZE and the like.
Environment identity(const RankPlan& rank, int size, const std::string& rendezvous);

// Rank local_rank's share of this process's cores, as even as possible; empty if there are too few cores.
std::vector<int> cores_of(int local_rank, int local_size);

// `text` as one word of a POSIX shell.
std::string shell_word(const std::string& text);

// The script for a shell on rank.host: goes to `directory`, sets `environment`, runs the program, and ends it
// when stdin ends (see end_remote in job.cc).
std::string remote_script(const RankPlan& rank, const std::string& directory, const Environment& environment,
                          const std::vector<std::string>& program);

}  // namespace heddle::tool
