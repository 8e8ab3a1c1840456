// How kernels write the keys of row_sums.h, and find an element in an ascending list.
#pragma once

#include <cstdint>

#include "cuda/row_sums.h"
#include "gpu/kernel.h"

namespace heddle::cuda_kernels {

// Keys have 4 or 8 bytes.
HEDDLE_DEVICE inline void store_key(const EntryLists& lists, long long i, long long key) {
  if (lists.key_bytes == 4)
    static_cast<std::uint32_t*>(lists.keys)[i] = static_cast<std::uint32_t>(key);
  else
    static_cast<std::uint64_t*>(lists.keys)[i] = static_cast<std::uint64_t>(key);
}
HEDDLE_DEVICE inline long long load_key(const void* keys, int key_bytes, long long i) {
  if (key_bytes == 4) return static_cast<const std::uint32_t*>(keys)[i];
  return static_cast<long long>(static_cast<const std::uint64_t*>(keys)[i]);
}

// How many of the first `count` elements are below a value, or with `or_equal` not above it.
HEDDLE_DEVICE inline long long count_below(const long long* list, long long count, long long value,
                                           bool or_equal) {
  long long low = 0, high = count;
  while (low < high) {
    const long long middle = low + (high - low) / 2;
    if (list[middle] < value || (or_equal && list[middle] == value))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// The end of the run of keys that are equal to key(i), in ascending order: near ends, of most runs, are found by few steps.
template <class Key> HEDDLE_DEVICE long long run_end(long long i, long long count, const Key& key) {
  const auto own = key(i);
  long long low = i, step = 1;  // key(low) is equal
  while (low + step < count && key(low + step) == own) low += step, step *= 2;
  long long high = low + step < count ? low + step : count;  // beyond the run
  while (low + 1 < high) {
    const long long middle = low + (high - low) / 2;
    (key(middle) == own ? low : high) = middle;
  }
  return high;
}

}  // namespace heddle::cuda_kernels
