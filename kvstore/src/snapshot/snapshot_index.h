// The index of a snapshot: what is where in the file, without the values. It is shown to people, and used to
// make snapshots for another number of servers.
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
  std::vector<std::uint64_t> pieces{};  // offsets of pieces in the file; all but the last have kPieceBytes
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

// Called now and then with the bytes done and the bytes in all.
using SnapshotProgress = std::function<void(std::uint64_t done, std::uint64_t all)>;

// Reads the whole file. Throws SnapshotError if it is damaged.
SnapshotIndex index_snapshot(const std::string& path, const SnapshotProgress& progress = {});

}  // namespace heddle::kv_detail
