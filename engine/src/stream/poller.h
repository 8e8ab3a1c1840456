// Tells the engine when events complete, so that no thread ever waits for a stream.
//
// A stream that can call back does so. One that cannot is polled by one thread an engine, made when it is first needed
// and asleep while there is nothing to poll. GPUs are polled although CUDA knows host callbacks (cudaLaunchHostFunc):
// such a callback is work on the stream, which holds up the work behind it for as long as a host thread takes to wake
// up, and it is not called at all once the GPU has failed, which would leave whoever waits waiting for ever.
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

  // Calls back once, on any thread and with no lock held, when the event has completed; perhaps before it returns.
  // Events of one stream are watched in the order in which they were recorded. The callback must not throw.
  void watch(Stream& stream, Event& event, std::uint64_t generation, Stream::Callback call);

  // Returns when all that is watched has completed, and the thread has ended. Not from a callback.
  void stop() noexcept;

  bool has_thread() const;  // for tests

 private:
  struct Watched {
    Stream* stream;
    Event* event;
    std::uint64_t generation;
    Stream::Callback call;
  };
  using Line = std::deque<Watched>;  // of one stream, oldest first: they complete in this order
  using Clock = std::chrono::steady_clock;

  bool start();
  void work();
  bool take_new(std::vector<Line>& lines, Clock::time_point& last_news);
  static bool sweep(std::vector<Line>& lines);

  mutable std::mutex mutex_;  // guards all below; nothing else is locked while it is held
  std::condition_variable news_;
  std::vector<Watched> new_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace heddle::detail
