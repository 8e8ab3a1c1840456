// One snapshot that a thread of its own writes, while the server goes on and collects the rest of it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "snapshot/saved_message.h"
#include "snapshot/snapshot_file.h"

namespace heddle::kv_detail {

struct WrittenSnapshot {
  std::string path;
  std::uint64_t bytes = 0;
  double seconds = 0;  // that it took
  std::string error;   // empty: it is on the disk
};

// All calls from one thread, which owns the values: they are released on it.
class BackgroundWriter {
 public:
  // Writes the state to the folder as the header says, then removes all but the newest `kept`.
  BackgroundWriter(std::string folder, const SnapshotHeader& header, std::size_t kept);
  ~BackgroundWriter();  // waits; a snapshot that is not complete is thrown away
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  using Part = std::vector<SavedMessage>;
  void add(Part part);  // ignored once it has failed
  void complete();      // there are no more parts

  // Releases some of what has been written. True: all is over, and wait() does not wait.
  bool go_on();
  bool has_written();  // there is something to release
  // Once it is complete.
  const WrittenSnapshot& wait();

 private:
  void run() noexcept;
  void write();
  bool next();

  const std::string folder_;
  const SnapshotHeader header_;
  const std::size_t kept_;
  std::mutex mutex_;  // guards what follows; nothing else is locked under it
  std::condition_variable changed_;
  std::deque<Part> to_write_{}, written_{};
  bool complete_ = false, given_up_ = false;

  Part writing_{};  // the thread's, while it runs
  std::atomic<bool> over_{false};
  WrittenSnapshot result_;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace heddle::kv_detail
