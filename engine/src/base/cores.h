// On which core a thread runs, and how it moves to another. The kernel may put a woken thread on its waker's core
// although others are idle: Linux does since 6.12 while a thread that was just parked is still queued on the idle core,
// and kernels of virtual machines do to leave virtual cores unused. For threads that work together this is the worst
// core: either the woken thread interrupts the waker and looks for work that the waker was about to hand over, or it
// waits for the waker's time slice of some milliseconds to end.
#pragma once

#include <optional>
#include <sched.h>

namespace heddle::detail {

constexpr int kNoCore = -1;

// How many cores the calling thread may run on; none if the system does not say.
std::optional<int> cores_by_affinity();

inline int this_core() noexcept { return sched_getcpu(); }

}  // namespace heddle::detail
