// A random plan of a simulation: its processes, and what workers push.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace heddle::kv_detail::sim {

// A key is an i64 value with equal elements, or an f64 matrix whose rows are pushed and pulled.
struct KeyPlan {
  std::uint32_t shard = 0;
  std::uint32_t rows = 0;    // number of rows of a matrix; 0: a value
  std::size_t elements = 5;  // number of elements of the value, or of a row
};

struct Plan {
  std::uint32_t servers = 1, workers = 1, replicas = 2, rounds = 1;
  std::string consistency = "sync";  // "sync", "async" or "ssp:2"
  std::vector<KeyPlan> keys{};
  // Keys that are pushed together: a list of several keys, or a single one.
  std::vector<std::vector<std::uint32_t>> groups{};
  std::chrono::milliseconds most_pause{0};   // longest pause of a worker between rounds
  std::chrono::milliseconds lost_after{0};   // an option of the scheduler, see StoreSchedulerOptions
  std::chrono::milliseconds fault_pause{0};  // average time between faults; 0: no faults
  // A fault begins only after the former one is repaired; then no shard may be lost.
  bool one_fault_at_a_time = true;
  // Each process, and each restarted one, speaks the newest protocol version or the one before, at random.
  bool mixed_versions = false;
  int keys_at_once = 128;  // an option of the servers, see ServerOptions
  bool trace = false;      // whether to print faults and the scheduler's events
};

Plan random_plan(std::uint64_t seed);

}  // namespace heddle::kv_detail::sim
