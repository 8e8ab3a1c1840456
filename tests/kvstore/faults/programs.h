// What kv_faults does: see main.cc. All return 0 if what has to hold did, and say on stderr what did not.
#pragma once

#include <cstdint>
#include <string>

namespace heddle::test {

struct FaultSettings {
  std::string transport = "net";
  long long count = 0;  // messages, connections or kills
  double seconds = 0;   // of a soak
  std::uint64_t seed = 1;
  int rare = 2000;         // one chunk in so many meets a fault
  bool scheduled = false;  // messages: with a scheduler and two copies, and all connections disturbed
  bool untimed = false;    // of a run beside others: times are printed only
};

int run_messages(const FaultSettings& settings);
int run_strangers(const FaultSettings& settings);
int run_kills(const FaultSettings& settings);
int run_soak(const FaultSettings& settings, const std::string& program);
// A process of the soak: trains until it is killed.
int run_worker(const std::string& address, const std::string& job, int rank, int workers, std::uint64_t seed);

}  // namespace heddle::test
