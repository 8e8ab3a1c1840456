// On which core a thread runs, and how it comes to run on another. A scheduler may put a woken thread on its waker's core
// although others are idle: Linux since 6.12 while a thread that just fell asleep is still queued there, kernels of virtual
// machines to leave virtual cores unused. For threads that work together there is no worse place: the one looks for what
// the other, stopped by it, was about to hand over, or stands behind it for a time slice of milliseconds.
#pragma once

#include <optional>
#include <sched.h>
#include <sys/types.h>

namespace heddle::detail {

constexpr int kNoCore = -1;

// How many cores the calling thread may run on; none if the system does not say.
std::optional<int> cores_by_affinity();

inline int this_core() noexcept { return sched_getcpu(); }

// Takes `core` from those that a thread may run on, and moves it if it runs there. False, and nothing is done, if it has no
// other; else `before` is what it had.
bool keep_off(pid_t thread, int core, cpu_set_t& before) noexcept;

// The calling thread may run on `cores` again.
void allow(const cpu_set_t& cores) noexcept;

}  // namespace heddle::detail
