// The jobs of several servers merged into one: its keys, and the parts of snapshots that they are made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "client/placement.h"
#include "snapshot/snapshot_index.h"

namespace heddle::kv_detail {

// A key of a job: its parts by their offsets in the value. All parts have the same arrays and pushes, in the
// same order, and the same arrays of optimizer state, each for the whole part or for some rows of it.
struct MergedKey {
  struct Part {
    std::size_t server = 0;
    std::uint64_t offset = 0;
    const KeyIndex* index = nullptr;
    std::vector<const ArrayIndex*> arrays{};           // the value, and the pushes that wait
    std::map<std::string, const ArrayIndex*> state{};  // optimizer's state by name
    std::uint64_t bytes() const { return index->key.bytes; }
  };
  StateKey key;  // `bytes` is that of the whole value
  Clocks clocks;
  std::vector<Part> parts{};
  std::uint64_t row_bytes() const { return key.whole_rows > 0 ? key.bytes / key.whole_rows : 0; }
};

struct MergedJob {
  StateJob job;
  std::vector<StateWorker> workers{};
  // The keys, in the order in which they were initialised if their servers depend on that order.
  std::vector<MergedKey> keys{};
};

// The placement of the job's workers. For an explicit placement the list is not known.
PlacementRule placement_of(const StateJob& job);

// Merges the snapshots of all servers. Throws Error, which names the job or the key, if they do not belong
// together; with `newest_parts`, parts of a key may have had different pushes.
std::vector<MergedJob> merge_jobs(const std::vector<SnapshotIndex>& parts, bool newest_parts);

}  // namespace heddle::kv_detail
