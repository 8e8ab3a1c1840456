#include "fork.h"

#include <array>
#include <atomic>
#include <pthread.h>

namespace heddle::detail {
namespace {

std::atomic<std::uint32_t> generation{0};
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
  generation.fetch_add(1, std::memory_order_relaxed);
  after();
}

[[maybe_unused]] const bool registered = [] {
  pthread_atfork(before, after, in_child);
  return true;
}();

}  // namespace

std::uint32_t fork_generation() noexcept { return generation.load(std::memory_order_relaxed); }

ForkMutex::ForkMutex() { held_over_fork.at(mutexes.fetch_add(1)) = this; }

}  // namespace heddle::detail
