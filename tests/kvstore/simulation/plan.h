// What a simulated program does: its processes, and what its workers push. It follows from a seed.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace heddle::kv_detail::sim {

// A key is a value of i64, of which all elements are equal, or a matrix of f64, of which rows are pushed and pulled.
struct KeyPlan {
  std::uint32_t shard = 0;
  std::uint32_t rows = 0;    // of the matrix; 0: it is a value
  std::size_t elements = 5;  // of the value, or of a row
};

struct Plan {
  std::uint32_t servers = 1, workers = 1, replicas = 2, rounds = 1;
  std::string consistency = "sync";  // or "async", "ssp:2"
  std::vector<KeyPlan> keys{};
  // Which keys are pushed together: several as one list, one by itself.
  std::vector<std::vector<std::uint32_t>> groups{};
  std::chrono::milliseconds most_pause{0};   // of a worker between two rounds
  std::chrono::milliseconds lost_after{0};   // as in StoreSchedulerOptions
  std::chrono::milliseconds fault_pause{0};  // between two faults, on average; 0: there are none
  // The next fault comes when all is well again: then no shard may be lost.
  bool one_fault_at_a_time = true;
  // Each process speaks the newest version of the protocol or the one before, and another one when it is started anew.
  bool mixed_versions = false;
  int keys_at_once = 128;  // as in ServerOptions
  bool trace = false;      // faults and what the scheduler does are printed
};

Plan random_plan(std::uint64_t seed);

}  // namespace heddle::kv_detail::sim
