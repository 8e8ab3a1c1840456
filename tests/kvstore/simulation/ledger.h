// What workers have pushed, what they were told, and what they have seen: whether each value that is pulled can be right.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulation/plan.h"

namespace heddle::kv_detail::sim {

class Ledger {
 public:
  explicit Ledger(const Plan& plan);

  // Each push of a worker adds this to each element. So a sum says how often each worker is in it.
  static std::int64_t value_of(std::uint32_t rank);
  // The rows that the worker's push of this number has.
  std::vector<std::int64_t> rows_of_push(std::uint32_t key, std::uint32_t rank, std::uint64_t clock) const;

  void sent(std::uint32_t key, std::uint32_t rank, std::uint64_t clock);
  void acknowledged(std::uint32_t key, std::uint32_t rank, std::uint64_t clock);
  // A worker that is started anew is told how many of its pushes the server has.
  void check_resumed(std::uint32_t key, std::uint32_t rank, std::uint64_t clock);

  struct Pull {
    std::uint32_t key = 0, rank = 0;
    std::uint64_t clock = 0;
    std::uint64_t ahead = 0;  // rounds that the pull need not wait for, at most
    bool last = false;        // all workers have been told that all of their pushes count
    std::vector<std::uint64_t>
        least{};  // by rank: pushes that were acknowledged or seen before the pull was sent
  };
  Pull begin_pull(std::uint32_t key, std::uint32_t rank, std::uint64_t clock, bool last) const;
  // One element; `row`: of a matrix, else 0.
  void check(const Pull& pull, std::uint32_t row, std::int64_t value);

 private:
  struct Count {
    std::uint64_t sent = 0, acknowledged = 0, seen = 0;
    std::uint64_t ahead = 0;  // pushes that no round had, at most, when a new process went on
  };
  Count& count(std::uint32_t key, std::uint32_t rank) { return counts_[key][rank]; }
  const Count& count(std::uint32_t key, std::uint32_t rank) const { return counts_[key][rank]; }
  bool has_row(std::uint32_t key, std::uint32_t rank, std::uint64_t clock, std::uint32_t row) const;
  bool is_round(const Pull& pull, std::uint32_t row, std::int64_t value, std::uint64_t round) const;
  std::uint64_t pushes_with(std::uint32_t key, std::uint32_t rank, std::uint64_t clock,
                            std::uint32_t row) const;
  std::string text(const Pull& pull, std::uint32_t row, std::int64_t value) const;

  const Plan& plan_;
  const bool sync_;
  const std::uint64_t slack_;               // of bounded staleness
  std::vector<std::vector<Count>> counts_;  // by key and rank
};

}  // namespace heddle::kv_detail::sim
