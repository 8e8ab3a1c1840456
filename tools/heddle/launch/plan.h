// Which ranks run where, and what each is told in its environment.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace heddle::tool {

struct Host {
  std::string name;  // empty: this one
  int slots = 1;
};

// "a:2,b,localhost:2". Throws std::runtime_error.
std::vector<Host> parse_hosts(const std::string& list);

// What a process of a job is. Servers, and the scheduler that tells where they are, end after the ranks.
enum class ProcessKind { rank, server, scheduler };

struct RankPlan {
  int rank = 0;
  std::string host{};  // empty: this one
  int local_rank = 0, local_size = 1;
  ProcessKind kind = ProcessKind::rank;  // server: the number `rank` of the job's key-value stores
};

// The ranks in order, host after host. `ranks` 0: as many as there are slots. Throws std::runtime_error.
std::vector<RankPlan> place_ranks(const std::vector<Host>& hosts, int ranks);

using Environment = std::map<std::string, std::string>;

// HEDDLE_RANK and its kin.
Environment identity(const RankPlan& rank, int size, const std::string& rendezvous);

// Those of this process's cores that are rank `local_rank`'s own, as even as can be; empty if there are fewer than ranks.
std::vector<int> cores_of(int local_rank, int local_size);

// `text` as one word of a POSIX shell.
std::string shell_word(const std::string& text);

// What a shell on rank.host has to do: go to `directory`, set `environment`, run the program, end it with its stdin (see end_remote in job.cc).
std::string remote_script(const RankPlan& rank, const std::string& directory, const Environment& environment,
                          const std::vector<std::string>& program);

}  // namespace heddle::tool
