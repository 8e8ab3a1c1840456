// The placement of ranks on hosts, and their environment variables.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace heddle::tool {

struct Host {
  std::string name;  // name of the host; empty: this host
  int slots = 1;
};

// Parses a list of hosts and their numbers of slots, such as "a:2,b,localhost:2". Throws std::runtime_error.
std::vector<Host> parse_hosts(const std::string& list);

// The role of a process in a job. Servers and their scheduler end after the ranks.
enum class ProcessKind { rank, server, scheduler };

struct RankPlan {
  int rank = 0;
  std::string host{};  // empty: this host
  int local_rank = 0, local_size = 1;
  ProcessKind kind = ProcessKind::rank;  // for a server, `rank` above is the server's number
};

// Places the ranks on the slots of the hosts, one host after the other. `ranks` 0: one rank for each slot.
// Throws std::runtime_error.
std::vector<RankPlan> place_ranks(const std::vector<Host>& hosts, int ranks);

using Environment = std::map<std::string, std::string>;

// The environment variables that tell a rank its place in the job, such as HEDDLE_RANK and HEDDLE_SIZE.
Environment identity(const RankPlan& rank, int size, const std::string& rendezvous);

// Rank local_rank's share of this process's cores, as even as possible; empty if there are too few cores.
std::vector<int> cores_of(int local_rank, int local_size);

// Quotes `text` so that a POSIX shell takes it as one word.
std::string shell_word(const std::string& text);

// A script for a shell on the rank's host. The script changes to `directory`, sets `environment`, runs the
// program, and ends it when its own stdin ends (see end_remote in job.cc).
std::string remote_script(const RankPlan& rank, const std::string& directory, const Environment& environment,
                          const std::vector<std::string>& program);

}  // namespace heddle::tool
