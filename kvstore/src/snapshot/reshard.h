// Makes snapshots of all servers of a job anew, for another number of servers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/placement.h"
#include "snapshot/snapshot_index.h"

namespace heddle::kv_detail {

struct ReshardOptions {
  std::string out{};  // folder for the new snapshots, without any of that number of servers
  std::uint32_t servers = 1;
  std::uint64_t incarnation = 0;  // incarnation of the new snapshots: a random number
  // Parts of one value may have had different pushes. Each part is taken as it is, without pushes that wait.
  bool newest_parts = false;
  PlacementRule placement{};    // for jobs with an explicit placement: the list for the new servers
  SnapshotProgress progress{};  // called while snapshots are written
};

struct Resharded {
  std::vector<std::string> files{};
  std::vector<std::string> notes{};  // warnings, a line each
};

// `parts`: the snapshot of each server, by number. Split values are joined, and split as workers of the new
// servers expect them. Throws Error, before anything is written, for snapshots that do not belong together:
// it names the key or the job that differs. Files are removed if writing fails.
Resharded reshard(const std::vector<SnapshotIndex>& parts, const ReshardOptions& options);

}  // namespace heddle::kv_detail
