#include "host/stuck.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace heddle::comm_detail {
namespace {

struct Seen {
  std::uint64_t counter = 0, target = 0;
  std::uint32_t whom = 0;
  bool operator==(const Seen&) const = default;
};
struct Waits {
  std::uint64_t nap = 0;  // even: none
  std::array<Seen, 2> of{};
  bool operator==(const Waits&) const = default;
};

Seen look_at(const Wait& wait) {
  return {wait.counter.load(std::memory_order_acquire), wait.target.load(std::memory_order_acquire),
          wait.whom.load(std::memory_order_acquire)};
}

// All waits of one nap or none: a rank that waits for either of two things, seen with only one of them, would look stuck.
Waits look_at(const RankBlock& rank_block) {
  const std::uint64_t nap = rank_block.naps.load(std::memory_order_acquire);
  const Waits seen{nap, {look_at(rank_block.waits[0]), look_at(rank_block.waits[1])}};
  return nap % 2 == 1 && rank_block.naps.load(std::memory_order_acquire) == nap ? seen : Waits{};
}

std::vector<Waits> look_at_all(const Segment& segment) {
  std::vector<Waits> all;
  for (int rank = 0; rank < segment.size(); ++rank) all.push_back(look_at(segment.rank_block(rank)));
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

// A nap that is there the first time and the second time was there between the two; if its waits are not over the second
// time, they were not over then. So all waits that are taken for real were so at one moment.
std::vector<bool> stuck_ranks(const Segment& segment) {
  const std::vector<Waits> before = look_at_all(segment), waits = look_at_all(segment);
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
                                  [&](const Seen& seen) { return seen.whom >= ranks || !stuck[seen.whom]; });
      changed |= !stuck[rank];
    }
  }
  return stuck;
}

// Stuck ranks wait for stuck ranks only, and their waits stay as they are: who follows them comes to a rank twice.
std::vector<int> circle_of(const Segment& segment, const std::vector<bool>& stuck) {
  std::vector<int> way;
  for (auto rank = std::find(stuck.begin(), stuck.end(), true) - stuck.begin(); rank < std::ssize(stuck);) {
    const auto before = std::find(way.begin(), way.end(), static_cast<int>(rank));
    if (before != way.end()) return {before, way.end()};
    way.push_back(static_cast<int>(rank));
    const Waits waits = look_at(segment.rank_block(static_cast<int>(rank)));
    rank = waits.of[0].counter ? waits.of[0].whom : waits.of[1].whom;
  }
  return {};
}

}  // namespace heddle::comm_detail
