// The clock of traces: the processor's counter where it runs at one rate on all cores, else the steady clock.
#pragma once

#include <atomic>
#include <chrono>

#include "trace/trace_record.h"

namespace heddle::trace {

// Set before the first record: whether the processor's counter may be used.
inline std::atomic<bool> counter_is_steady{false};

// Looks at the processor.
bool find_steady_counter() noexcept;

inline std::uint64_t steady_nanoseconds() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// Some 10 ns, where the steady clock takes 25.
inline Tick now() noexcept {
#if defined(__x86_64__)
  if (counter_is_steady.load(std::memory_order_relaxed)) return __builtin_ia32_rdtsc();
#endif
  return steady_nanoseconds();
}

// Turns ticks into nanoseconds since the clock was made.
class Clock {
 public:
  Clock() : first_tick_(now()), first_nanosecond_(steady_nanoseconds()) {}
  Tick first_tick() const { return first_tick_; }
  // Finds how long a tick is, once: from then on it is fixed. The later it is called, the better it is known; waits
  // until two milliseconds are over.
  void calibrate();
  std::uint64_t nanoseconds(Tick tick) const {  // after calibrate; 0 for ticks before the first
    return tick < first_tick_ ? 0
                              : static_cast<std::uint64_t>(static_cast<double>(tick - first_tick_) * length_);
  }

 private:
  Tick first_tick_;
  std::uint64_t first_nanosecond_;
  double length_ = 0;  // of a tick, in nanoseconds; 0: not known yet
};

}  // namespace heddle::trace
