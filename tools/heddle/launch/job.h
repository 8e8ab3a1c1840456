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
  int restarts = 0;                       // the most restarts of failed ranks, in total
  bool copies = false;                    // whether servers have backups: then one that dies is restarted
  int server_restarts = 10;               // most restarts per minute, of each server and of the scheduler
};

// The command for one rank: its program on this host, or the ssh that runs it on another one.
struct RankProgram {
  RankPlan plan;
  std::vector<std::string> words;
  Environment environment;
  std::vector<int> cores;  // the cores that the rank may use; empty: all
};

// Returns the command for a rank. `restart`: number of the job's restarts, this one included; 0: first start.
using ProgramOf = std::function<RankProgram(const RankPlan& rank, int restart)>;

// Returns the exit status for the launcher: 0, that of the rank that failed first, or 128 and a signal. The
// signals SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGCHLD stay blocked.
int run_job(const std::vector<RankPlan>& plan, const ProgramOf& program, const JobOptions& options,
            Guard& guard);

// Call it before making a Guard: signals that the launcher forwards must not end the guard process.
void block_signals();

}  // namespace heddle::tool
