// Snapshots of all servers of a job, made anew for another number of servers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/placement.h"
#include "snapshot/snapshot_index.h"

namespace heddle::kv_detail {

struct ReshardOptions {
  std::string out{};  // folder; it has no snapshots of that number of servers yet
  std::uint32_t servers = 1;
  std::uint64_t incarnation = 0;  // of the new snapshots: a random number
  // Parts of one value may have had different pushes: each part is taken as it is, and pushes that wait are left out.
  bool newest_parts = false;
  PlacementRule placement{};    // of jobs with an explicit placement: the list for the new servers
  SnapshotProgress progress{};  // of what is written
};

struct Resharded {
  std::vector<std::string> files{};
  std::vector<std::string> notes{};  // what is no error but deserves a look, a line each
};

// `parts`: the snapshot of each server, by number. Values that are split are put together, and placed as workers of the
// new servers expect them. Throws Error, before anything is written, for snapshots that do not belong together: it names
// the key or the job that differs. What was written is removed if writing fails.
Resharded reshard(const std::vector<SnapshotIndex>& parts, const ReshardOptions& options);

}  // namespace heddle::kv_detail
