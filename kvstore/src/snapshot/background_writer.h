// Writes one snapshot on a thread of its own, while the server's thread goes on and collects the rest of the
// state.
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
  double seconds = 0;  // time that writing has taken
  std::string error;   // why writing has failed; empty: the snapshot is on the disk
};

// All functions are called on one thread, which owns the values. The payloads of written parts are released
// on this thread.
class BackgroundWriter {
 public:
  // Writes a snapshot with this header to the folder. Then removes all snapshots of the server but the newest
  // `kept`.
  BackgroundWriter(std::string folder, const SnapshotHeader& header, std::size_t kept);
  ~BackgroundWriter();  // waits for the writing thread; an incomplete snapshot is discarded
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  using Part = std::vector<SavedMessage>;
  void add(Part part);  // ignores the part if writing has failed
  void complete();      // says that no more parts follow

  // Releases some of the parts that have been written. True: writing is over, and wait() does not block.
  bool go_on();
  bool has_written();  // whether there are written parts that go_on() can release
  // Blocks until the snapshot is written. To be called after complete(), or when go_on() has returned true.
  const WrittenSnapshot& wait();

 private:
  void run() noexcept;
  void write();
  bool next();

  const std::string folder_;
  const SnapshotHeader header_;
  const std::size_t kept_;
  std::mutex mutex_;  // guards the members from here to given_up_; while it is held, nothing else is locked
  std::condition_variable changed_;
  std::deque<Part> to_write_{}, written_{};
  bool complete_ = false, given_up_ = false;

  Part writing_{};  // the part that is being written; used only by thread_ while it runs
  std::atomic<bool> over_{false};
  WrittenSnapshot result_;
  std::thread thread_;  // declared last, since the thread uses all other members
};

}  // namespace heddle::kv_detail
