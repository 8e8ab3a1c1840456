// Makes the arrays of a key for one of the new servers from the arrays that the former servers' snapshots
// have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "snapshot/merged_job.h"

namespace heddle::kv_detail {

// Indexed by the former server's number.
using SnapshotReaders = std::vector<std::unique_ptr<SnapshotReader>>;
using ByteRange = std::pair<std::uint64_t, std::uint64_t>;  // bytes [begin, end) of the whole value of a key

// Bytes [begin, end) of an array in the snapshot of a former server.
struct ArraySlice {
  std::size_t server = 0;
  const ArrayIndex* index = nullptr;
  std::uint64_t begin = 0, end = 0;
};

// An array for a new server. Its bytes are `first`, followed by the slices `rest` of the former servers'
// arrays.
struct NewArray {
  StateArray array;
  std::vector<std::byte> first{};  // numbers of rows, which are other ones than in the former arrays
  std::vector<ArraySlice> rest{};
};

// The arrays for a new server that has this range of the key's value. The value, and state and pushes of
// whole values, are cut at the ends of the range. Of state and pushes of rows, the rows in the range are
// taken. Reads only the numbers of rows. Throws Error, which names the key, if rows would be cut.
std::vector<NewArray> arrays_in(const MergedKey& key, const ByteRange& range, const SnapshotReaders& from);

// Reads bytes.size() bytes of an array from a snapshot, beginning with byte `begin` of the array.
void read_array(SnapshotReader& from, const ArrayIndex& index, std::uint64_t begin,
                std::span<std::byte> bytes);

}  // namespace heddle::kv_detail
