// A stream is a queue of work on a device. Work on one stream runs in the order in which it was enqueued; work on two
// streams runs in any order, unless one of them waits for an event of the other.
//
// Whoever enqueues work does not wait for it: an op on a stream is *issued* when its function has returned, and
// *done* when the work that the function enqueued has run. docs/streams.md tells how the engine keeps the order.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include <heddle/device.h>

namespace heddle {

// A point in a stream's work. It is recorded again and again, each time as a new generation, and only when the one
// before has completed: so a question about an older generation is answered "complete".
class Event {
 public:
  Event() = default;
  virtual ~Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  // Of the last recording; 0 before the first. Any thread.
  std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

 protected:
  std::uint64_t next_generation() { return generation_.fetch_add(1, std::memory_order_acq_rel) + 1; }

 private:
  std::atomic<std::uint64_t> generation_{0};
};

// One thread at a time enqueues; poll and notify may be called by any thread at any time. Made by make_stream or by
// a back end of your own.
class Stream {
 public:
  Stream(Device device, Lane lane) : device_(device), lane_(lane) {}
  virtual ~Stream() = default;  // that of a back end waits for the work enqueued
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device device() const { return device_; }
  Lane lane() const { return lane_; }

  // For ops: this is what their functions do. None of it waits for the work.

  // Runs fn on some host thread when its turn comes. fn must neither use a GPU nor wait for a stream. An exception
  // out of it fails the op that enqueued it.
  virtual void enqueue(std::function<void()> fn) = 0;
  // Copies bytes between any two places that the device can reach.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  // The back end's own handle, a cudaStream_t on a GPU; null if it has none.
  virtual void* native() const { return nullptr; }

  // For the engine.

  // The calling thread is going to enqueue: makes the device the thread's current one, where there is such a thing.
  virtual void begin() {}
  // Throws if the device has none left.
  virtual std::unique_ptr<Event> make_event() = 0;
  // The event completes when all that was enqueued before has run. It stands for what was enqueued since the
  // recording before: what went wrong there comes with it. Throws only after having waited for that work.
  virtual void record(Event& event) = 0;
  // Whether wait() understands events of that stream.
  virtual bool can_wait_for(const Stream& other) const = 0;
  // What is enqueued from now on runs after the event. Throws only after the event has completed.
  virtual void wait(Event& event, std::uint64_t generation) = 0;
  // True if the event has completed; then `error` is what went wrong, if anything. Returns at once.
  virtual bool poll(Event& event, std::uint64_t generation, std::exception_ptr& error) noexcept = 0;
  // Calls back once, from any thread and perhaps before this returns, when the event has completed. False if this
  // stream cannot do that: then the event has to be polled.
  using Callback = std::function<void(std::exception_ptr)>;
  virtual bool notify(Event& event, std::uint64_t generation, const Callback& call) {
    (void)event, (void)generation, (void)call;
    return false;
  }

 private:
  Device device_;
  Lane lane_;
};

// A new stream: of a GPU, or for cpu(i) a HostStream. Throws InvalidArgument for cpu_pinned, which is memory alone, and
// Error for a GPU that is not there.
std::unique_ptr<Stream> make_stream(Device device, Lane lane = Lane::compute);

}  // namespace heddle
