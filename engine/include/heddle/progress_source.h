// An object that ends asynchronous ops on a thread of its own, such as a communicator. A thread that waits for such an
// op can do the object's work itself, so that no thread has to be woken.
#pragma once

#include <atomic>
#include <cstdint>

#include <heddle/var.h>

namespace heddle {

class ProgressSource {
 public:
  virtual ~ProgressSource() = default;
  // Called on a thread that is in no op and waits for var; the wait ends when `over` is not 0. Does on this
  // thread, if it can begin now, the work that the source's ops that mutate var wait for. May block until
  // that is done. Begins no other work, and none once `over` is not 0. An empty `var` means that the thread
  // is in wait_all() and waits for all ops.
  virtual void progress_until(const Var& var, const std::atomic<std::uint32_t>& over) noexcept = 0;
};

}  // namespace heddle
