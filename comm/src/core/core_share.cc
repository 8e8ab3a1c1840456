#include "core/core_share.h"

#include <sched.h>

#include <heddle/usable_cores.h>

namespace heddle::comm_detail {
namespace {

using Clock = std::chrono::steady_clock;

// A sched_yield() that takes longer has let another thread run; others take a fraction of a microsecond.
constexpr std::chrono::microseconds kOtherThreadRan{3};
// The shortest interval between two moves.
constexpr std::chrono::milliseconds kMinInterval{2};

}  // namespace

bool ranks_share_cores(int ranks_here) {
  const UsableCores cores = usable_cores();
  return ranks_here > cores.count() && static_cast<long>(ranks_here) * cores.by_affinity > cores.online;
}

void CoreShare::yield(bool may_move) {
  const auto before = Clock::now();
  sched_yield();
  if (!may_move) return;
  const auto after = Clock::now();
  if (after - before < kOtherThreadRan || after - left_ < kMinInterval) return;
  left_ = after;
  change_core();
}

}  // namespace heddle::comm_detail
