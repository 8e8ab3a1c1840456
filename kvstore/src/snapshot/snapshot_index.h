// The index of a snapshot: its jobs, workers and keys, and where in the file their arrays are, but no values.
// Tools show the index to people, and make snapshots for another number of servers from it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "snapshot/snapshot_file.h"
#include "wire/state_records.h"

namespace heddle::kv_detail {

struct ArrayIndex {
  StateArray array;
  // Offsets in the file of the pieces of the array. All pieces but the last one have kPieceBytes bytes.
  std::vector<std::uint64_t> pieces{};
};

struct KeyIndex {
  StateKey key;
  Clocks clocks;
  std::vector<ArrayIndex> arrays{};
};

struct JobIndex {
  StateJob job;
  std::vector<StateWorker> workers{};
  std::vector<KeyIndex> keys{};
};

struct SnapshotIndex {
  std::string path;
  SnapshotHeader header;
  StateBegin begin;
  std::uint64_t bytes = 0;
  std::vector<JobIndex> jobs{};
};

// Called now and then with the number of bytes that are done, and the number of all bytes to do.
using SnapshotProgress = std::function<void(std::uint64_t done, std::uint64_t all)>;

// Reads the whole file to make its index. Throws SnapshotError if the file is damaged.
SnapshotIndex index_snapshot(const std::string& path, const SnapshotProgress& progress = {});

}  // namespace heddle::kv_detail
