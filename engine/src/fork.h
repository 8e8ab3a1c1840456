// fork(): the child has one thread and a copy of all memory. Engines made before it are dead there; the default engine
// is made anew at its next use. The parent does not notice.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace heddle::detail {

// How many forks this process descends through since the program started.
extern std::atomic<std::uint32_t> forks;
inline std::uint32_t fork_generation() noexcept { return forks.load(std::memory_order_relaxed); }

// A process-wide lock that the child must find free. Never destroyed.
class ForkMutex {
 public:
  ForkMutex();
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

}  // namespace heddle::detail
