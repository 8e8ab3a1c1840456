// Records pushes, acknowledgements and pulled values, and checks that each pulled value is possible.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simulation/plan.h"

namespace heddle::kv_detail::sim {

class Ledger {
 public:
  explicit Ledger(const Plan& plan);

  // What a push of this worker adds to each element. The number of each worker's pushes can be computed from
  // a sum.
  static std::int64_t value_of(std::uint32_t rank);
  // The rows that the worker's push number `clock` has.
  std::vector<std::int64_t> rows_of_push(std::uint32_t key, std::uint32_t rank, std::uint64_t clock) const;

  void sent(std::uint32_t key, std::uint32_t rank, std::uint64_t clock);
  void acknowledged(std::uint32_t key, std::uint32_t rank, std::uint64_t clock);
  // Checks the number of pushes, `clock`, that a server says it has of a restarted worker.
  void check_resumed(std::uint32_t key, std::uint32_t rank, std::uint64_t clock);

  struct Pull {
    std::uint32_t key = 0, rank = 0;
    std::uint64_t clock = 0;
    // Rounds by which a pulled value may lag behind `clock` after the worker's restart.
    std::uint64_t ahead = 0;
    bool last = false;  // whether the pull comes after all workers' pushes are acknowledged
    // For each rank the number of pushes that were acknowledged, or seen in a pull, before this pull was
    // sent.
    std::vector<std::uint64_t> least{};
  };
  Pull begin_pull(std::uint32_t key, std::uint32_t rank, std::uint64_t clock, bool last) const;
  // Checks a pulled element of a row; `row` is 0 if the key has no rows.
  void check(const Pull& pull, std::uint32_t row, std::int64_t value);

 private:
  struct Count {
    std::uint64_t sent = 0, acknowledged = 0, seen = 0;
    // Number of pushes that the server had at the worker's restart and that no pull had shown before.
    std::uint64_t ahead = 0;
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
  const std::uint64_t slack_;  // the staleness bound of a consistency "ssp:N"; unlimited for others
  std::vector<std::vector<Count>> counts_;  // counts of pushes by key and rank
};

}  // namespace heddle::kv_detail::sim
