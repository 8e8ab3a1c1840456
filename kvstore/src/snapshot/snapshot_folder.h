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

// Files in the folder that are named like snapshots, sorted by count of servers and number of the server, and
// the snapshots of a server from the newest to the oldest. Throws Error if the folder cannot be read.
std::vector<SnapshotName> snapshots_in(const std::string& folder);
// The snapshots of one server, from the newest to the oldest.
std::vector<SnapshotName> snapshots_of(const std::string& folder, std::uint32_t number,
                                       std::uint32_t servers);

// Removes all but the newest `kept` snapshots of the server, and temporary files that its killed processes
// have left.
void remove_old_snapshots(const std::string& folder, std::uint32_t number, std::uint32_t servers,
                          std::size_t kept);

// A lock of a folder for one server number, so that only one process at a time writes this server's snapshots
// to it.
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
