// A folder with the snapshots of servers: server-0-of-2-00000017.snapshot.
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

// What is called like a snapshot in the folder, by servers and number, the newest of each first. Throws Error if the folder
// cannot be read.
std::vector<SnapshotName> snapshots_in(const std::string& folder);
// Those of one server, the newest first.
std::vector<SnapshotName> snapshots_of(const std::string& folder, std::uint32_t number,
                                       std::uint32_t servers);

// Removes all but the newest `kept` snapshots of the server, and what its killed writers have left.
void remove_old_snapshots(const std::string& folder, std::uint32_t number, std::uint32_t servers,
                          std::size_t kept);

// A folder that one process at a time writes the snapshots of this server to.
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
