// The servers of a job's key-value stores, and the scheduler that tells where they are.
#pragma once

#include <string>
#include <vector>

#include "job.h"
#include "process.h"

namespace heddle::tool {

class StoreServers {
 public:
  struct Settings {
    int servers = 0, replicas = 1;
    std::string directory;      // where the scheduler keeps its state
    std::vector<Host> hosts{};  // of the ranks, which get the servers in turn; empty: this one
  };
  explicit StoreServers(Settings settings);

  std::vector<RankPlan> plan() const;
  // The command line of one process of plan(), to be run on the host that the plan names.
  RankProgram program(const RankPlan& plan) const;
  const std::string& address() const { return scheduler_; }  // of the scheduler; empty: there are no servers

 private:
  int servers_beside(const RankPlan& plan) const;  // on its host, with itself

  const Settings settings_;
  Descriptor reserved_;  // the scheduler's port
  std::string scheduler_;
};

std::string this_host();

}  // namespace heddle::tool
