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

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle::detail
