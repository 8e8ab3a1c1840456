// Writes one snapshot on a thread of its own, while the server goes on and collects the rest of its state.
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
  double seconds = 0;  // time that writing took
  std::string error;   // empty: the snapshot is on the disk
};

// All calls come from one thread, which owns the values: they are released on it.
class BackgroundWriter {
 public:
  // Writes a snapshot with this header to the folder, then removes all but the newest `kept`.
  BackgroundWriter(std::string folder, const SnapshotHeader& header, std::size_t kept);
  ~BackgroundWriter();  // waits; an incomplete snapshot is discarded
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  using Part = std::vector<SavedMessage>;
  void add(Part part);  // ignores the part if writing has failed
  void complete();      // says that no more parts follow

  // Releases some of what has been written. True: writing is over, and wait() does not block.
  bool go_on();
  bool has_written();  // whether go_on() has something to release
  // Blocks until the snapshot is written. To be called once complete() was called, or go_on() was true.
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

  Part writing_{};  // belongs to the writing thread, while that runs
  std::atomic<bool> over_{false};
  WrittenSnapshot result_;
  std::thread thread_;  // the last member, since it uses the members above
};

}  // namespace heddle::kv_detail
