#include "host/stuck.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace heddle::comm_detail {
namespace {

struct Seen {
  std::uint64_t counter = 0, target = 0;
  std::uint32_t rank = 0;
  bool operator==(const Seen&) const = default;
};
struct Waits {
  std::uint64_t version = 0;  // RankBlock::wait_version; even: the rank does not wait
  std::array<Seen, 2> of{};
  bool operator==(const Waits&) const = default;
};

Seen read_wait(const Wait& wait) {
  return {wait.counter.load(std::memory_order_acquire), wait.target.load(std::memory_order_acquire),
          wait.rank.load(std::memory_order_acquire)};
}

// Reads both waits of a rank, and returns none if the rank has changed them meanwhile: a rank that waits for
// either of two counters would seem stuck if only one of them was seen.
Waits read_waits(const RankBlock& rank_block) {
  const std::uint64_t version = rank_block.wait_version.load(std::memory_order_acquire);
  const Waits seen{version, {read_wait(rank_block.waits[0]), read_wait(rank_block.waits[1])}};
  return version % 2 == 1 && rank_block.wait_version.load(std::memory_order_acquire) == version ? seen
                                                                                                : Waits{};
}

std::vector<Waits> read_all_waits(const Segment& segment) {
  std::vector<Waits> all;
  for (int rank = 0; rank < segment.size(); ++rank) all.push_back(read_waits(segment.rank_block(rank)));
  return all;
}

template <class MayEnd> bool waits_in_vain(const Waits& waits, MayEnd&& may_end) {
  bool any = false;
  for (const Seen& seen : waits.of) {
    if (!seen.counter) continue;
    if (may_end(seen)) return false;
    any = true;
  }
  return any;
}

}  // namespace

// The waits are read twice. If a rank's version is the same both times, its wait has lasted from the first
// reading to the second; if the awaited counters have not reached their targets after that, they had not
// before. So the waits of all ranks that pass this check existed at one moment.
std::vector<bool> stuck_ranks(const Segment& segment) {
  const std::vector<Waits> before = read_all_waits(segment), waits = read_all_waits(segment);
  const auto ranks = waits.size();
  std::vector<bool> stuck(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    stuck[rank] = waits[rank] == before[rank] && waits_in_vain(waits[rank], [&](const Seen& seen) {
                    return segment.counter_at(seen.counter).load(std::memory_order_seq_cst) >= seen.target;
                  });
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (!stuck[rank]) continue;
      stuck[rank] = waits_in_vain(waits[rank],
                                  [&](const Seen& seen) { return seen.rank >= ranks || !stuck[seen.rank]; });
      changed |= !stuck[rank];
    }
  }
  return stuck;
}

// A stuck rank waits for stuck ranks only, and their waits do not change. So a path from rank to awaited rank
// comes back to one of its ranks.
std::vector<int> cycle_of(const Segment& segment, const std::vector<bool>& stuck) {
  std::vector<int> path;
  for (auto rank = std::find(stuck.begin(), stuck.end(), true) - stuck.begin(); rank < std::ssize(stuck);) {
    const auto before = std::find(path.begin(), path.end(), static_cast<int>(rank));
    if (before != path.end()) return {before, path.end()};
    path.push_back(static_cast<int>(rank));
    const Waits waits = read_waits(segment.rank_block(static_cast<int>(rank)));
    rank = waits.of[0].counter ? waits.of[0].rank : waits.of[1].rank;
  }
  return {};
}

}  // namespace heddle::comm_detail
