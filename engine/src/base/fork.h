// fork(): the child has one thread and a copy of all memory. Engines made before the fork cannot be used in the child;
// the default engine is made anew at its next use there. In the parent nothing changes.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace heddle::detail {

class SubmissionQueue;

// Number of forks between the start of the program and this process.
extern std::atomic<std::uint32_t> forks;
inline std::uint32_t fork_generation() noexcept { return forks.load(std::memory_order_relaxed); }

// A process-wide lock that is free in the child of a fork. Never destroyed.
class ForkMutex {
 public:
  ForkMutex();  // for a mutex that is held briefly, perhaps by a thread that enters ops
  struct AroundEngines {};
  explicit ForkMutex(AroundEngines);  // for a mutex under which engines are made and destroyed
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

// While a HeldDuringFork lives, no thread pops from the queue during a fork. So the child finds every op in
// the queue or on all its vars.
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
