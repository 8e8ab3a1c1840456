// Long work on a server's thread. Nobody is heard meanwhile, but the scheduler goes on hearing that the server is there:
// the thread itself says so between two parts of its work, so that one that hangs is silent.
#pragma once

#include <cstdint>
#include <functional>

namespace heddle::kv_detail {

// While it lives, keep_alive() calls `say` on this thread, every 20 ms at most.
class KeepAliveScope {
 public:
  explicit KeepAliveScope(std::function<void()> say);
  ~KeepAliveScope();
  KeepAliveScope(const KeepAliveScope&) = delete;
  KeepAliveScope& operator=(const KeepAliveScope&) = delete;
};

void keep_alive();

// Runs `work`, which computes with so many bytes on the current engine. A lot of it runs on another thread, for which this one
// waits, and says that it is there; but not for longer than such work can take. Rethrows what `work` throws.
void run_long(std::uint64_t bytes, const std::function<void()>& work);

}  // namespace heddle::kv_detail
