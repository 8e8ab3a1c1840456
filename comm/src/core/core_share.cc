#include "core/core_share.h"

#include <sched.h>

#include <heddle/usable_cores.h>

namespace heddle::comm_detail {
namespace {

using Clock = std::chrono::steady_clock;

// A yield with nobody to yield to takes a fraction of a microsecond.
constexpr std::chrono::microseconds kSomebodyRan{3};
constexpr std::chrono::milliseconds kStay{2};

}  // namespace

void CoreShare::yield() {
  const auto before = Clock::now();
  sched_yield();
  const auto after = Clock::now();
  if (after - before < kSomebodyRan || after - left_ < kStay) return;
  left_ = after;
  change_core();
}

}  // namespace heddle::comm_detail
