// The subcommands of kv_faults, described in main.cc. Each prints a failure to stderr; 0: success.
#pragma once

#include <cstdint>
#include <string>

namespace heddle::test {

struct FaultSettings {
  std::string transport = "net";
  long long count = 0;  // messages, connections or kills
  double seconds = 0;   // duration of a soak
  std::uint64_t seed = 1;
  int rare = 2000;         // one chunk of bytes in `rare` meets a fault
  bool scheduled = false;  // `messages` with a scheduler and two replicas, and faults on all connections
  bool untimed = false;    // long repairs are no failure, as other programs run beside this one
};

int run_messages(const FaultSettings& settings);
int run_strangers(const FaultSettings& settings);
int run_kills(const FaultSettings& settings);
int run_soak(const FaultSettings& settings, const std::string& program);
// The soak's worker process: trains for up to 3.2 s, unless it is killed before.
int run_worker(const std::string& address, const std::string& job, int rank, int workers, std::uint64_t seed);

}  // namespace heddle::test
