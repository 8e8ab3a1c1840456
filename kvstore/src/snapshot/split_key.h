// The arrays of a key for one of the new servers, made of those that the former servers have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "snapshot/merged_job.h"

namespace heddle::kv_detail {

using SnapshotReaders = std::vector<std::unique_ptr<SnapshotReader>>;  // indexed by server
using ByteRange = std::pair<std::uint64_t, std::uint64_t>;  // bytes [begin, end) of the whole value

// Bytes [begin, end) of an array.
struct ArraySlice {
  std::size_t server = 0;
  const ArrayIndex* index = nullptr;
  std::uint64_t begin = 0, end = 0;
};

// An array for a new server: new bytes, then slices of the former servers' arrays.
struct NewArray {
  StateArray array;
  std::vector<std::byte> first{};  // numbers of rows, which come first
  std::vector<ArraySlice> rest{};  // slices that follow `first`
};

// The arrays for this range of the value. Values, and state and pushes of whole values, are cut at its ends;
// of state and pushes of rows, those in the range are taken. Reads only the numbers of rows. Throws Error,
// which names the key, if rows would be cut.
std::vector<NewArray> arrays_in(const MergedKey& key, const ByteRange& range, const SnapshotReaders& from);

// Reads bytes.size() bytes of an array, from `begin` on.
void read_array(SnapshotReader& from, const ArrayIndex& index, std::uint64_t begin,
                std::span<std::byte> bytes);

}  // namespace heddle::kv_detail
