// Makes new snapshots from those of all servers, for another number of servers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/placement.h"
#include "snapshot/snapshot_index.h"

namespace heddle::kv_detail {

struct ReshardOptions {
  std::string out{};  // folder for the new snapshots, which must not have snapshots of `servers` servers
  std::uint32_t servers = 1;
  std::uint64_t incarnation = 0;  // incarnation of the new snapshots: a random number
  // Whether parts of one value may have had different pushes. Each part is then taken as it is, without
  // waiting pushes.
  bool newest_parts = false;
  PlacementRule placement{};    // for jobs with an explicit placement: where their keys are to be
  SnapshotProgress progress{};  // called while snapshots are written
};

struct Resharded {
  std::vector<std::string> files{};
  std::vector<std::string> notes{};  // warnings; each is a line of text
};

// `parts`: the snapshot of each server, by number. Split values are joined, and split again as workers of the
// new servers expect them. If snapshots do not belong together, throws Error, which names the key or the job,
// before anything is written. If writing fails, removes the files that were written.
Resharded reshard(const std::vector<SnapshotIndex>& parts, const ReshardOptions& options);

}  // namespace heddle::kv_detail
