// Writes the records of all threads to the file, on a thread of low priority, while the program runs.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <heddle/trace.h>

#include "trace/trace_buffer.h"
#include "trace/trace_file.h"

namespace heddle::trace {

// Records and writes all traces of a process, one after the other.
class Recorder {
 public:
  explicit Recorder(Recorder* parent) : parent_(parent) {}
  void start(const std::string& path, const TraceOptions& options);
  TraceSummary stop();
  void flush();
  bool running() const noexcept { return running_.load(std::memory_order_relaxed); }

  // A buffer for the calling thread; null if there is no memory left for records.
  ThreadBuffer* make_buffer() noexcept;
  void count_dropped() noexcept { dropped_.fetch_add(1, std::memory_order_relaxed); }
  std::uint32_t next_lane() noexcept { return lanes_.fetch_add(1, std::memory_order_relaxed); }
  bool first_from_environment() noexcept { return !from_environment_.exchange(true); }

 private:
  // One trace, from start to stop.
  struct Session {
    Session(const std::string& path, std::uint64_t most_bytes) : file(path, most_bytes) {}
    TraceFile file;
    Clock clock;
    std::uint64_t records = 0, dropped = 0;
  };
  void write_until_stopped();
  bool stopped_within_a_while();
  void take_all(Tick until);
  bool take_round(Tick until);
  bool take_from(ThreadBuffer& buffer, Tick until);
  void forget(const std::vector<ThreadBuffer*>& finished);
  void use(const Record& record);
  void start_writer();
  void stop_writer();

  std::mutex control_mutex_;  // held by start() and stop(); guards writer_; locked before all other mutexes
  std::thread writer_;
  // Guards session_; held while records are taken from buffers. May be locked while control_mutex_ is held.
  std::mutex write_mutex_;
  std::optional<Session> session_;
  std::mutex wake_mutex_;  // guards stopping_; nothing else is locked while it is held
  std::condition_variable wake_;
  bool stopping_ = false;
  std::mutex buffers_mutex_;  // guards buffers_; may be locked while write_mutex_ is held
  std::vector<std::unique_ptr<ThreadBuffer>> buffers_;
  ChunkPool pool_;
  std::atomic<bool> running_{false}, from_environment_{false};
  std::atomic<std::uint32_t> lanes_{1};
  std::atomic<std::uint64_t> dropped_{0};  // records dropped by threads without a buffer
  Recorder* const parent_;  // the recorder of the process before the fork; kept only for leak checkers
};

// The recorder of this process. The child of a fork gets a new one, because threads of the parent may have held the old
// one's locks.
Recorder& the_recorder() noexcept;

// Called in the child of a fork, which has no trace until it starts one: the thread gives up the buffer and
// the lane that it has in the parent's trace.
void forget_thread_after_fork() noexcept;

}  // namespace heddle::trace
