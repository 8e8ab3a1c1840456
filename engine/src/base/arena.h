// The seam to TBB: the cores that an engine's workers and their ops' own parallel loops share.
#pragma once

#include <memory>

namespace heddle::detail {

class Arena {
 public:
  explicit Arena(int cores);
  ~Arena();
  // Calls fn(argument) inside: a tbb::parallel_for in it uses this arena's cores, and only those that no worker has.
  void run(void (*fn)(void*), void* argument);
  // The process ends, and TBB with it: threads that enter or leave from now on are stopped for good.
  void abandon() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle::detail
