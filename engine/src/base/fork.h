// fork(): the child has one thread and a copy of all memory. Engines made before it are dead there; the default engine
// is made anew at its next use. The parent does not notice.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace heddle::detail {

class SubmissionQueue;

// How many forks this process descends through since the program started.
extern std::atomic<std::uint32_t> forks;
inline std::uint32_t fork_generation() noexcept { return forks.load(std::memory_order_relaxed); }

// A process-wide lock that the child must find free. Never destroyed.
class ForkMutex {
 public:
  ForkMutex();  // held for moments, perhaps by who enters ops
  struct AroundEngines {};
  explicit ForkMutex(AroundEngines);  // engines may be made and destroyed while it is held
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

// While one lives, nobody takes from the queue during a fork: the child finds every op there or on all of its vars.
class HeldDuringFork {
 public:
  explicit HeldDuringFork(SubmissionQueue& queue);
  ~HeldDuringFork();
  HeldDuringFork(const HeldDuringFork&) = delete;
  HeldDuringFork& operator=(const HeldDuringFork&) = delete;

 private:
  SubmissionQueue& queue_;
};

}  // namespace heddle::detail
