#include "trace/trace_clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace heddle::trace {

bool find_steady_counter() noexcept {
#if defined(__x86_64__)
  // Looks for the "invariant TSC", a counter with the same rate in every power state and on every core.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) && (edx & (1u << 8)) != 0;
#else
  return false;
#endif
}

void Clock::calibrate() {
  constexpr std::uint64_t kEnough = 2'000'000;
  if (length_ > 0) return;
  std::uint64_t elapsed = 0;
  Tick ticks = 0;
  do {
    elapsed = steady_nanoseconds() - first_nanosecond_;
    ticks = now() - first_tick_;
  } while (elapsed < kEnough || ticks == 0);
  length_ = static_cast<double>(elapsed) / static_cast<double>(ticks);
}

}  // namespace heddle::trace
