// Who ends asynchronous ops on a thread of its own, as a communicator does: a thread that waits for one of them can do
// that work itself, so that neither has to be woken.
#pragma once

#include <atomic>
#include <cstdint>

#include <heddle/var.h>

namespace heddle {

class ProgressSource {
 public:
  virtual ~ProgressSource() = default;
  // On a thread that is in no op and waits for var, until `over` is not 0. Does, on this thread, what has to be done before
  // its ops that mutate var can end, if it can begin now; may block until that is done. Begins nothing once it is over, nor
  // anything else: the thread waits for no more than var.
  virtual void progress_until(const Var& var, const std::atomic<std::uint32_t>& over) noexcept = 0;
};

}  // namespace heddle
