// Calls the engine back when events complete, so that no thread ever waits for a stream.
//
// Streams that can call back do so. Others are polled by one thread per engine, made when it is first needed and
// blocked while there is nothing to poll. GPUs are polled although CUDA has host callbacks (cudaLaunchHostFunc): such a
// callback is work on the stream, which delays the work behind it until a host thread has woken up, and it is not
// called at all once the GPU has failed, so that waits would never end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include <heddle/stream.h>

namespace heddle::detail {

// Thread-safe.
class Poller {
 public:
  Poller() = default;
  ~Poller() { stop(); }
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;

  // Calls `call` once, on any thread and with no lock held, when the event has completed; perhaps before watch returns.
  // Events of one stream are watched in the order in which they were recorded. The callback must not throw.
  void watch(Stream& stream, Event& event, std::uint64_t generation, Stream::Callback call);

  // Returns when all watched events have completed, and the thread has ended. Not to be called from a callback.
  void stop() noexcept;

  bool has_thread() const;  // for tests

 private:
  struct Watched {
    Stream* stream;
    Event* event;
    std::uint64_t generation;
    Stream::Callback call;
  };
  using StreamQueue = std::deque<Watched>;  // events of one stream, oldest first: they complete in this order
  using Clock = std::chrono::steady_clock;

  bool start();
  void work();
  bool take_new(std::vector<StreamQueue>& queues, Clock::time_point& last_news);
  static bool poll_all(std::vector<StreamQueue>& queues);

  mutable std::mutex mutex_;  // guards all below; nothing else is locked while it is held
  std::condition_variable news_;
  std::vector<Watched> new_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace heddle::detail
