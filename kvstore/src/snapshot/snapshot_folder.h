// A folder with the snapshots of servers, named like server-0-of-2-00000017.snapshot.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "snapshot/snapshot_file.h"

namespace heddle::kv_detail {

struct SnapshotName {
  std::uint32_t number = 0, servers = 1;
  std::uint64_t sequence = 0;
  std::string path{};
};

std::string snapshot_path(const std::string& folder, std::uint32_t number, std::uint32_t servers,
                          std::uint64_t sequence);

// Files in the folder that are named like snapshots, by count of servers and number, the newest of each
// first. Throws Error if the folder cannot be read.
std::vector<SnapshotName> snapshots_in(const std::string& folder);
// The snapshots of one server, the newest first.
std::vector<SnapshotName> snapshots_of(const std::string& folder, std::uint32_t number,
                                       std::uint32_t servers);

// Removes all but the newest `kept` snapshots of the server, and temporary files of its killed writers.
void remove_old_snapshots(const std::string& folder, std::uint32_t number, std::uint32_t servers,
                          std::size_t kept);

// The lock of a folder: one process at a time writes the snapshots of this server to it.
class SnapshotLock {
 public:
  // Makes the folder if there is none. Throws Error if that fails, or if another process has the lock.
  SnapshotLock(const std::string& folder, std::uint32_t number, std::uint32_t servers);
  ~SnapshotLock();
  SnapshotLock(const SnapshotLock&) = delete;
  SnapshotLock& operator=(const SnapshotLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace heddle::kv_detail
