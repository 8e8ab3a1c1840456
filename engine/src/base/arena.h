// The cores that an engine's workers and the tbb::parallel_for loops inside their ops share.
#pragma once

#include <memory>

namespace heddle::detail {

class Arena {
 public:
  explicit Arena(int cores);
  ~Arena();
  // Calls fn(argument) inside the arena: a tbb::parallel_for in it uses this arena's cores that no worker occupies.
  void run(void (*fn)(void*), void* argument);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle::detail
