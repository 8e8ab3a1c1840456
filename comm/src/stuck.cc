#include "stuck.h"

#include <array>

namespace heddle::detail {
namespace {

struct Seen {
  std::uint64_t counter = 0, target = 0;
  std::uint32_t whom = 0;
  bool operator==(const Seen&) const = default;
};
using Waits = std::array<Seen, 2>;

// Nothing if the wait changes meanwhile. If the same counter is written there again, a target from before has been
// reached, and one from after is that of the wait that is seen.
Seen look_at(const Wait& wait) {
  Seen seen;
  seen.counter = wait.counter.load(std::memory_order_acquire);
  seen.target = wait.target.load(std::memory_order_acquire);
  seen.whom = wait.whom.load(std::memory_order_acquire);
  return wait.counter.load(std::memory_order_acquire) == seen.counter ? seen : Seen{};
}

std::vector<Waits> look_at_all(const Segment& segment) {
  std::vector<Waits> all;
  for (int rank = 0; rank < segment.size(); ++rank) {
    const Board& board = segment.board(rank);
    all.push_back({look_at(board.waits[0]), look_at(board.waits[1])});
  }
  return all;
}

template <class MayEnd> bool waits_in_vain(const Waits& waits, MayEnd&& may_end) {
  bool any = false;
  for (const Seen& seen : waits) {
    if (!seen.counter) continue;
    if (may_end(seen)) return false;
    any = true;
  }
  return any;
}

}  // namespace

// A wait that is there the first time and the second time was there between the two; if it is not over the second time,
// it was not over then. So all waits that are taken for real were so at one moment.
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

}  // namespace heddle::detail
