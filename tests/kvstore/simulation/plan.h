// A random plan of a simulation: its processes, and what workers push.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace heddle::kv_detail::sim {

// A key: an i64 value whose elements are always equal, or an f64 matrix whose rows are pushed and pulled.
struct KeyPlan {
  std::uint32_t shard = 0;
  std::uint32_t rows = 0;    // number of rows of the matrix; 0: the key is a value
  std::size_t elements = 5;  // number of elements of the value, or of a row of the matrix
};

struct Plan {
  std::uint32_t servers = 1, workers = 1, replicas = 2, rounds = 1;
  std::string consistency = "sync";  // "sync", "async" or "ssp:N"
  std::vector<KeyPlan> keys{};
  // Each group is a list of keys that are pushed together, or a single key.
  std::vector<std::vector<std::uint32_t>> groups{};
  std::chrono::milliseconds most_pause{0};   // longest pause of a worker between rounds
  std::chrono::milliseconds lost_after{0};   // an option of the scheduler, see StoreSchedulerOptions
  std::chrono::milliseconds fault_pause{0};  // average time between faults; 0: no faults
  // Whether a fault begins only after the one before is repaired. In that case no shard may be lost.
  bool one_fault_at_a_time = true;
  // Whether each process that starts speaks, at random, the newest protocol version or the one before it.
  bool mixed_versions = false;
  int keys_at_once = 128;  // an option of the servers, see ServerOptions
  bool trace = false;      // whether to print faults and the scheduler's events
};

Plan random_plan(std::uint64_t seed);

}  // namespace heddle::kv_detail::sim
