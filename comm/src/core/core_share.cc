#include "core/core_share.h"

#include <sched.h>

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
  leave();
}

void CoreShare::leave() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  cpu_set_t elsewhere = allowed;
  CPU_CLR(static_cast<unsigned>(sched_getcpu()), &elsewhere);
  if (CPU_COUNT(&elsewhere) == 0 || sched_setaffinity(0, sizeof elsewhere, &elsewhere) != 0) return;
  sched_setaffinity(0, sizeof allowed, &allowed);
}

}  // namespace heddle::comm_detail
