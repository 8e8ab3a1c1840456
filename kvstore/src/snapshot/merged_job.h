// Merges what the snapshots of several servers have of a job. A merged key knows the parts of the snapshots
// that it is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "client/placement.h"
#include "snapshot/snapshot_index.h"

namespace heddle::kv_detail {

// A key of a job, with its parts in the order of their offsets in the value. All parts have the same arrays
// and waiting pushes, in the same order, and the same arrays of optimizer state. A part may have state of all
// its rows, or of some.
struct MergedKey {
  struct Part {
    std::size_t server = 0;
    std::uint64_t offset = 0;
    const KeyIndex* index = nullptr;
    std::vector<const ArrayIndex*> arrays{};           // the arrays of the value and of the waiting pushes
    std::map<std::string, const ArrayIndex*> state{};  // the arrays of optimizer state, by name
    std::uint64_t bytes() const { return index->key.bytes; }
  };
  StateKey key;  // StateKey::bytes is the size of the whole value
  Clocks clocks;
  std::vector<Part> parts{};
  std::uint64_t row_bytes() const { return key.whole_rows > 0 ? key.bytes / key.whole_rows : 0; }
};

struct MergedJob {
  StateJob job;
  std::vector<StateWorker> workers{};
  // The keys. If the placement depends on the order of keys, they are in the order in which they were
  // initialised.
  std::vector<MergedKey> keys{};
};

// The rule by which the job's workers place keys. If it is an explicit placement, the rule lacks the list of
// keys, which snapshots do not have.
PlacementRule placement_of(const StateJob& job);

// Merges the snapshots of all servers. Throws Error, which names the job or the key, if the snapshots do not
// belong together. With `newest_parts`, parts of a key may have had different pushes.
std::vector<MergedJob> merge_jobs(const std::vector<SnapshotIndex>& parts, bool newest_parts);

}  // namespace heddle::kv_detail
