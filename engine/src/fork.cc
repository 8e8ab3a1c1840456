#include "fork.h"

#include <array>
#include <atomic>
#include <pthread.h>

namespace heddle::detail {

constinit std::atomic<std::uint32_t> forks{0};

namespace {

std::array<std::atomic<ForkMutex*>, 8> held_over_fork{};
std::atomic<std::size_t> mutexes{0};

void before() {
  for (auto& mutex : held_over_fork) {
    if (ForkMutex* one = mutex.load()) one->lock();
  }
}

void after() {
  for (auto& mutex : held_over_fork) {
    if (ForkMutex* one = mutex.load()) one->unlock();
  }
}

void in_child() {
  forks.fetch_add(1, std::memory_order_relaxed);
  after();
}

[[maybe_unused]] const bool registered = [] {
  pthread_atfork(before, after, in_child);
  return true;
}();

}  // namespace

ForkMutex::ForkMutex() { held_over_fork.at(mutexes.fetch_add(1)) = this; }

}  // namespace heddle::detail
