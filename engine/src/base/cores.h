// On which core a thread runs, and how it moves to another. The kernel may put a woken thread on its waker's core
// although others are idle: Linux does since 6.12 while a thread that was just parked is still queued on the idle core,
// and kernels of virtual machines do to leave virtual cores unused. For threads that work together this is the worst
// core: either the woken thread interrupts the waker and looks for work that the waker was about to hand over, or it
// waits for the waker's time slice of some milliseconds to end.
#pragma once

#include <optional>
#include <sched.h>
#include <sys/types.h>

namespace heddle::detail {

constexpr int kNoCore = -1;

// How many cores the calling thread may run on; none if the system does not say.
std::optional<int> cores_by_affinity();

inline int this_core() noexcept { return sched_getcpu(); }

// Takes `core` out of a thread's affinity, which moves the thread if it runs there; `before` becomes the affinity until
// now. False, with nothing changed, if the thread may run on no other core.
bool exclude_core(pid_t thread, int core, cpu_set_t& before) noexcept;

// Gives the calling thread the affinity that exclude_core() returned in `before`.
void restore_affinity(const cpu_set_t& before) noexcept;

}  // namespace heddle::detail
