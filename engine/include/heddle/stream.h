// A stream is a queue of work on a device. Work on one stream runs in the order in which it was enqueued; work on two
// streams runs in any order, unless one of them waits for an event of the other.
//
// Enqueueing does not wait for the work: an op on a stream is *issued* when its function has returned, and
// *done* when the work that the function enqueued has run. See docs/streams.md.
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

namespace detail {
class RecordedWork;
class WorkRecorder;
}  // namespace detail

// A point in a stream's work. It may be recorded many times, each time as a new generation, and only when the
// generation before is complete: so every older generation is complete.
class Event {
 public:
  Event() = default;
  virtual ~Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  // The generation of the last recording; 0 before the first. Any thread.
  std::uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

 protected:
  std::uint64_t next_generation() { return generation_.fetch_add(1, std::memory_order_acq_rel) + 1; }

 private:
  std::atomic<std::uint64_t> generation_{0};
};

// A queue of work on a device. One thread at a time enqueues. Any thread may call poll and notify at any
// time. Streams are made by make_stream, or are of a class that a back end of the user's derives from this
// one.
class Stream {
 public:
  Stream(Device device, Lane lane) : device_(device), lane_(lane) {}
  virtual ~Stream() = default;  // a back end's destructor waits for the enqueued work
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device device() const { return device_; }
  Lane lane() const { return lane_; }

  // enqueue(), copy() and native() are for the functions of ops. They do not wait for the work.

  // Runs fn on some host thread, after the work enqueued before. fn must neither use a GPU nor wait for a stream. An
  // exception out of fn fails the op that enqueued it.
  virtual void enqueue(std::function<void()> fn) = 0;
  // Calls fn when the work enqueued before has run, before the op that enqueues is done; an exception out of fn fails that op.
  // The stream does not wait for fn, unlike for a function given to enqueue(). fn is short, and waits for nothing.
  virtual void check_when_done(std::function<void()> fn) { enqueue(std::move(fn)); }
  // Copies bytes between any two addresses that the device can reach.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  // The back end's own handle, a cudaStream_t on a GPU; null if it has none.
  virtual void* native() const { return nullptr; }

  // begin() and all functions below it are called by the engine, not by ops.

  // Called before a thread enqueues: makes the device the thread's current one, if the back end has such a thing.
  virtual void begin() {}
  // Returns a new event. Throws if the device has none left.
  virtual std::unique_ptr<Event> make_event() = 0;
  // The event completes when all work that was enqueued before has run. It reports the errors of the work that was
  // enqueued since the recording before. If record throws, it has waited for that work.
  virtual void record(Event& event) = 0;
  // Whether wait() accepts events of that stream.
  virtual bool can_wait_for(const Stream& other) const = 0;
  // Work that is enqueued from now on runs after the event. If wait throws, the event has completed.
  virtual void wait(Event& event, std::uint64_t generation) = 0;
  // True if the event has completed; then `error` is its error, if there is one. Returns at once.
  virtual bool poll(Event& event, std::uint64_t generation, std::exception_ptr& error) noexcept = 0;
  // notify() calls `call` once, on any thread and perhaps before it returns, when the event has completed. It
  // returns false if this stream cannot do that: then the event has to be polled.
  using Callback = std::function<void(std::exception_ptr)>;
  virtual bool notify(Event& event, std::uint64_t generation, const Callback& call) {
    (void)event, (void)generation, (void)call;
    return false;
  }
  // Begins to record work of this stream, which can then be enqueued many times (src/stream/recorded_work.h). Any thread.
  // Null if the back end cannot record.
  virtual std::shared_ptr<detail::WorkRecorder> record_work() { return nullptr; }
  // Enqueues work that was recorded for this stream. If it throws, it has enqueued nothing.
  virtual void replay(detail::RecordedWork& work);

 private:
  Device device_;
  Lane lane_;
};

// Makes a stream: of a GPU, or for cpu(i) a HostStream. Throws InvalidArgument for cpu_pinned, which is only
// memory, and Error for a GPU that does not exist.
std::unique_ptr<Stream> make_stream(Device device, Lane lane = Lane::compute);

}  // namespace heddle
