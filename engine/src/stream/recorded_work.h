// Work of a stream that is recorded once and enqueued many times: how launches of a graph enqueue a run of its ops by one
// call. Stream::record_work makes a WorkRecorder, Stream::replay enqueues what it has recorded.
#pragma once

#include <memory>

#include <heddle/error.h>
#include <heddle/stream.h>

namespace heddle::detail {

// May outlive its stream. Destroyed when none of it is under way, on any thread.
class RecordedWork {
 public:
  RecordedWork() = default;
  virtual ~RecordedWork() = default;
  RecordedWork(const RecordedWork&) = delete;
  RecordedWork& operator=(const RecordedWork&) = delete;
};

// Used by one thread, which makes and destroys it. Without finish() nothing is left of it.
class WorkRecorder {
 public:
  WorkRecorder() = default;
  virtual ~WorkRecorder() = default;
  WorkRecorder(const WorkRecorder&) = delete;
  WorkRecorder& operator=(const WorkRecorder&) = delete;

  // What is enqueued on it is recorded, and does not run. Memory that is taken for it (gpu_memory.h) and freed again
  // belongs to the recorded work: it stays as long as that, and later ops of the recording have it again.
  virtual Stream& stream() = 0;
  virtual std::shared_ptr<RecordedWork> finish() = 0;  // throws if the work cannot be recorded
};

// Thrown by the stream of a recorder for work that differs from time to time, so that each launch has to enqueue it anew.
class NotRecordable : public Error {
 public:
  using Error::Error;
};

// The stream of a recorder that enqueues copies and functions elsewhere: has no events, and refuses all else.
class RecorderStream : public Stream {
 public:
  using Stream::Stream;
  void enqueue(std::function<void()>) override { refuse("enqueue"); }
  void check_when_done(std::function<void()>) override { refuse("check_when_done"); }
  std::unique_ptr<Event> make_event() override { refuse("make_event"); }
  void record(Event&) override { refuse("record"); }
  bool can_wait_for(const Stream&) const override { return false; }
  void wait(Event&, std::uint64_t) override { refuse("wait"); }
  bool poll(Event&, std::uint64_t, std::exception_ptr&) noexcept override { return true; }

 private:
  [[noreturn]] static void refuse(const char* what) {
    throw NotRecordable(std::string(what) + ": work that is recorded cannot do this");
  }
};

}  // namespace heddle::detail
