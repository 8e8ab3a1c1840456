// Sends heartbeats during long work on a server's thread, which receives no messages meanwhile. The thread
// itself sends the heartbeats between two parts of its work, so that a hung thread is silent.
#pragma once

#include <cstdint>
#include <functional>

namespace heddle::kv_detail {

// While this object lives, keep_alive() on the same thread calls `say`, at most every 20 ms.
class KeepAliveScope {
 public:
  explicit KeepAliveScope(std::function<void()> say);
  ~KeepAliveScope();
  KeepAliveScope(const KeepAliveScope&) = delete;
  KeepAliveScope& operator=(const KeepAliveScope&) = delete;
};

void keep_alive();

// Runs `work`, which computes with this many bytes on the current engine. If it takes long, it runs on
// another thread while the calling thread calls keep_alive(). After the longest time that such work can take,
// the calling thread stops that. Rethrows what `work` throws.
void run_long(std::uint64_t bytes, const std::function<void()>& work);

}  // namespace heddle::kv_detail
