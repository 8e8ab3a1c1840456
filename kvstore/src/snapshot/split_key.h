// What one of the new servers gets of a key: arrays made of those that the former servers have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "snapshot/merged_job.h"

namespace heddle::kv_detail {

using SnapshotReaders = std::vector<std::unique_ptr<SnapshotReader>>;  // by server
using ByteRange = std::pair<std::uint64_t, std::uint64_t>;             // of the whole value: begin, end

// Bytes [begin, end) of an array.
struct ArraySlice {
  std::size_t server = 0;
  const ArrayIndex* index = nullptr;
  std::uint64_t begin = 0, end = 0;
};

struct NewArray {
  StateArray array;
  std::vector<std::byte> first{};  // numbers of rows
  std::vector<ArraySlice> rest{};  // what follows
};

// Values, optimizer state and pushes of whole values are cut where the range ends; of what is kept of single rows, those in
// the range are taken. Reads the numbers of rows and no more. Throws Error, which names the key, if rows would be cut.
std::vector<NewArray> arrays_in(const MergedKey& key, const ByteRange& range, const SnapshotReaders& from);

// Reads the bytes of an array that begin there.
void read_array(SnapshotReader& from, const ArrayIndex& index, std::uint64_t begin,
                std::span<std::byte> bytes);

}  // namespace heddle::kv_detail
