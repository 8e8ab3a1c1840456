// Long work on a server's thread. No messages are received meanwhile, but the scheduler still gets
// heartbeats. The thread itself sends them between two parts of its work, so a hung thread is silent.
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

// Runs `work`, which computes with this many bytes on the current engine. A lot of work runs on another
// thread while this one calls keep_alive(), but not for longer than it can take. Rethrows what `work` throws.
void run_long(std::uint64_t bytes, const std::function<void()>& work);

}  // namespace heddle::kv_detail
