// One snapshot that a thread of its own writes, while the server goes on.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "snapshot/snapshot_file.h"
#include "transport/transport.h"

namespace heddle::kv_detail {

struct SavedMessage {
  std::vector<std::byte> head;
  Payload payload;
};

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
  BackgroundWriter(std::string folder, const SnapshotHeader& header, std::size_t kept,
                   std::vector<SavedMessage> state);
  ~BackgroundWriter();  // waits
  BackgroundWriter(const BackgroundWriter&) = delete;
  BackgroundWriter& operator=(const BackgroundWriter&) = delete;

  // Releases the payloads that have been written. True: all is over, and wait() does not wait.
  bool go_on();
  const WrittenSnapshot& wait();

 private:
  void run() noexcept;
  void write();

  const std::string folder_;
  const SnapshotHeader header_;
  const std::size_t kept_;
  std::vector<SavedMessage> state_;
  std::size_t released_ = 0;
  std::atomic<std::size_t> written_{0};  // messages; the thread touches none of them again
  std::atomic<bool> over_{false};
  WrittenSnapshot result_;
  std::thread thread_;  // last: it uses the members above
};

}  // namespace heddle::kv_detail
