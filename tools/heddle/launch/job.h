// Runs a job's processes until all have ended.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "plan.h"
#include "process.h"

namespace heddle::tool {

struct JobOptions {
  bool prefix = true;
  std::string output;  // directory of output files, one per process; empty: stdout and stderr
  std::chrono::milliseconds grace{5000};  // time from SIGTERM to SIGKILL
  int restarts = 0;                       // how often failed ranks are restarted at most, over all ranks
  bool copies = false;                    // whether servers have backups, so that a dead server is restarted
  int server_restarts = 10;               // most restarts per minute of a server or the scheduler
};

// The command that starts a process of the job: its program on this host, or ssh for another host.
struct RankProgram {
  RankPlan plan;
  std::vector<std::string> words;
  Environment environment;
  std::vector<int> cores;  // the cores that the process may use; empty: all
};

// Returns the command for a rank. `restart` is 0 for the first start, and n for the n-th restart of a rank of
// the job.
using ProgramOf = std::function<RankProgram(const RankPlan& rank, int restart)>;

// Runs the job. Returns the exit status for the launcher: 0, the status of the rank that failed first, or 128
// + the number of a signal that the launcher received. The signals SIGINT, SIGTERM, SIGHUP, SIGQUIT and
// SIGCHLD must be blocked (block_signals) and stay so.
int run_job(const std::vector<RankPlan>& plan, const ProgramOf& program, const JobOptions& options,
            Guard& guard);

// Blocks the signals that the launcher forwards. Call it before making a Guard, whose process inherits this:
// these signals must not end it.
void block_signals();

}  // namespace heddle::tool
