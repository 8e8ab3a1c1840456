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
  std::string output;                     // a directory: a file a rank instead of stdout and stderr
  std::chrono::milliseconds grace{5000};  // from SIGTERM to SIGKILL
  int restarts = 0;                       // of ranks that fail, in all
  bool copies = false;                    // a server that dies is started anew: another one has what it had
  int server_restarts = 10;               // of each server, and of the scheduler, a minute
};

// What is to be run for one rank: here, or the ssh that runs it elsewhere.
struct RankProgram {
  RankPlan plan;
  std::vector<std::string> words;
  Environment environment;
  std::vector<int> cores;  // that it stays on; empty: all
};

// What to run for a rank; restart: how many there have been in the job with this one, 0: it is started for the first time.
using ProgramOf = std::function<RankProgram(const RankPlan& rank, int restart)>;

// The exit status for the launcher: 0, that of the rank that failed first, or 128 and a signal. Blocks SIGINT, SIGTERM,
// SIGHUP, SIGQUIT and SIGCHLD for good.
int run_job(const std::vector<RankPlan>& plan, const ProgramOf& program, const JobOptions& options,
            Guard& guard);

// To be called before there is a Guard: it must not be ended by what the launcher only forwards.
void block_signals();

}  // namespace heddle::tool
