#include "simulation/ledger.h"

#include <algorithm>

#include <doctest/doctest.h>

namespace heddle::kv_detail::sim {
namespace {

constexpr std::int64_t kBase = 1000;  // more than the number of a worker's pushes

std::uint64_t slack_of(const std::string& consistency) {
  return consistency.starts_with("ssp:") ? std::stoull(consistency.substr(4)) : ~std::uint64_t{0};
}

}  // namespace

Ledger::Ledger(const Plan& plan)
    : plan_(plan),
      sync_(plan.consistency == "sync"),
      slack_(slack_of(plan.consistency)),
      counts_(plan.keys.size(), std::vector<Count>(plan.workers)) {}

std::int64_t Ledger::value_of(std::uint32_t rank) { return rank == 0 ? 1 : kBase * value_of(rank - 1); }

// Whether the worker's push number `clock` has this row. A key without rows counts as one row that every push
// has.
bool Ledger::has_row(std::uint32_t key, std::uint32_t rank, std::uint64_t clock, std::uint32_t row) const {
  if (plan_.keys[key].rows == 0) return true;
  const std::uint64_t mixed = (clock * 31 + rank * 7 + key * 3 + row + 1) * 0x9E3779B97F4A7C15u;
  return (mixed >> 40) % 2 == 0;
}

std::vector<std::int64_t> Ledger::rows_of_push(std::uint32_t key, std::uint32_t rank,
                                               std::uint64_t clock) const {
  std::vector<std::int64_t> rows;
  for (std::uint32_t row = 0; row < plan_.keys[key].rows; ++row) {
    if (has_row(key, rank, clock, row)) rows.push_back(row);
  }
  return rows;
}

// How many of the worker's first `clock` pushes have this row.
std::uint64_t Ledger::pushes_with(std::uint32_t key, std::uint32_t rank, std::uint64_t clock,
                                  std::uint32_t row) const {
  if (plan_.keys[key].rows == 0) return clock;
  std::uint64_t pushes = 0;
  for (std::uint64_t one = 1; one <= clock; ++one) pushes += has_row(key, rank, one, row);
  return pushes;
}

void Ledger::sent(std::uint32_t key, std::uint32_t rank, std::uint64_t clock) {
  count(key, rank).sent = std::max(count(key, rank).sent, clock);
}

void Ledger::acknowledged(std::uint32_t key, std::uint32_t rank, std::uint64_t clock) {
  count(key, rank).acknowledged = std::max(count(key, rank).acknowledged, clock);
}

void Ledger::check_resumed(std::uint32_t key, std::uint32_t rank, std::uint64_t clock) {
  Count& mine = count(key, rank);
  CAPTURE(key);
  CAPTURE(rank);
  CHECK(clock >= std::max(mine.acknowledged, mine.seen));
  CHECK(clock <= mine.sent);
  mine.ahead = clock - std::min(clock, mine.seen);
}

Ledger::Pull Ledger::begin_pull(std::uint32_t key, std::uint32_t rank, std::uint64_t clock, bool last) const {
  Pull pull{.key = key, .rank = rank, .clock = clock, .ahead = count(key, rank).ahead, .last = last};
  for (const Count& one : counts_[key]) pull.least.push_back(std::max(one.acknowledged, one.seen));
  return pull;
}

// Whether the pulled value of the row is the sum of the first `round` pushes of all workers.
bool Ledger::is_round(const Pull& pull, std::uint32_t row, std::int64_t value, std::uint64_t round) const {
  std::int64_t wanted = 0;
  for (std::uint32_t rank = 0; rank < plan_.workers; ++rank)
    wanted += value_of(rank) * static_cast<std::int64_t>(pushes_with(pull.key, rank, round, row));
  return value == wanted;
}

void Ledger::check(const Pull& pull, std::uint32_t row, std::int64_t value) {
  std::uint64_t round = pull.clock;
  if (sync_ && !pull.last) {
    while (!is_round(pull, row, value, round) && round > 0 && round + pull.ahead > pull.clock) --round;
  }
  for (std::uint32_t rank = 0; rank < plan_.workers; ++rank) {
    const auto pushes = static_cast<std::uint64_t>(value / value_of(rank) % kBase);
    const auto with_row = [&](std::uint64_t clock) { return pushes_with(pull.key, rank, clock, row); };
    Count& mine = count(pull.key, rank);
    std::uint64_t least = pull.least[rank], most = mine.sent;
    if (slack_ < pull.clock) least = std::max(least, pull.clock - slack_);
    if (sync_) least = most = round;
    if (pull.last) least = most = plan_.rounds;
    if (pushes < with_row(least) || pushes > with_row(most))
      FAIL_CHECK(text(pull, row, value)
                 << ", want " << with_row(least) << " to " << with_row(most) << " pushes of worker " << rank);
    while (mine.seen < mine.sent && with_row(mine.seen) < pushes) ++mine.seen;
  }
  if (value < 0 || value / value_of(plan_.workers) != 0) FAIL_CHECK(text(pull, row, value));
}

std::string Ledger::text(const Pull& pull, std::uint32_t row, std::int64_t value) const {
  return "worker " + std::to_string(pull.rank) + " has pulled " + std::to_string(value) + " of key " +
         std::to_string(pull.key) + ", row " + std::to_string(row) + ", after " + std::to_string(pull.clock) +
         " pushes" + (pull.last ? ", at the end" : "");
}

}  // namespace heddle::kv_detail::sim
