// The subcommands of kv_faults, described in main.cc. Each prints a failure to stderr, and returns 0 on
// success.
#pragma once

#include <cstdint>
#include <string>

namespace heddle::test {

struct FaultSettings {
  std::string transport = "net";
  // Number of messages, connections or kills to make, depending on the subcommand; 0: its default.
  long long count = 0;
  double seconds = 0;  // duration of the subcommand `soak`
  std::uint64_t seed = 1;
  int rare = 2000;  // one in `rare` chunks of bytes meets a fault
  // The subcommand `messages` uses a scheduler and two replicas, with faults on all connections.
  bool scheduled = false;
  bool untimed = false;  // long repairs are no failure, because other programs run beside this one
};

int run_messages(const FaultSettings& settings);
int run_strangers(const FaultSettings& settings);
int run_kills(const FaultSettings& settings);
int run_soak(const FaultSettings& settings, const std::string& program);
// The program of soak's worker processes: trains for up to 3.2 s, unless it is killed before.
int run_worker(const std::string& address, const std::string& job, int rank, int workers, std::uint64_t seed);

}  // namespace heddle::test
