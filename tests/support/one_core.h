// Runs code on one core only.
#pragma once

#include <functional>
#include <sched.h>
#include <thread>

#include <doctest/doctest.h>

namespace heddle::test {

// Runs body on a new thread and waits for its end. The thread, and all threads that it starts, are pinned to
// one core.
inline void on_one_core(const std::function<void()>& body) {
  std::thread([&body] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(sched_getcpu()), &one);
    const bool held = sched_setaffinity(0, sizeof one, &one) == 0;
    CHECK(held);
    if (held) body();
  }).join();
}

}  // namespace heddle::test
