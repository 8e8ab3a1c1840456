// The servers of a job's key-value stores, and their scheduler.
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
    std::vector<Host> hosts{};  // the hosts on which servers are placed, round robin; empty: this host
  };
  explicit StoreServers(Settings settings);

  std::vector<RankPlan> plan() const;
  // The command line of one process of plan(), to be run on the host that the plan names.
  RankProgram program(const RankPlan& plan) const;
  const std::string& address() const {
    return scheduler_;
  }  // the scheduler's address; empty: there are no servers

 private:
  int servers_beside(const RankPlan& plan) const;  // number of servers on the host of this server

  const Settings settings_;
  Descriptor reserved_;  // a socket that reserves the scheduler's port
  std::string scheduler_;
};

std::string this_host();

}  // namespace heddle::tool
