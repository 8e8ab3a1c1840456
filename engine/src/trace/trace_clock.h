// The clock of traces: the processor's counter where it runs at one rate on all cores, else the steady clock.
#pragma once

#include <atomic>
#include <chrono>

#include "trace/trace_record.h"

namespace heddle::trace {

// Whether now() may read the processor's counter. Set before the first record.
inline std::atomic<bool> counter_is_steady{false};

// Whether the processor has a counter of constant rate.
bool find_steady_counter() noexcept;

inline std::uint64_t steady_nanoseconds() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// Takes some 10 ns with the processor's counter, 25 with the steady clock.
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
  // The first call measures the length of a tick; further calls do nothing. It waits until two milliseconds
  // have passed since the constructor. The later it is made, the more exact is the result.
  void calibrate();
  std::uint64_t nanoseconds(Tick tick) const {  // call after calibrate(); 0 for ticks before first_tick()
    return tick < first_tick_ ? 0
                              : static_cast<std::uint64_t>(static_cast<double>(tick - first_tick_) * length_);
  }

 private:
  Tick first_tick_;
  std::uint64_t first_nanosecond_;
  double length_ = 0;  // length of a tick in nanoseconds; 0: not known yet
};

}  // namespace heddle::trace
