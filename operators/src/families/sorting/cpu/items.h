// The items that are sorted instead of elements: keys, alone or with the elements' indices.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <type_traits>

#include "cpu/loops/chunks.h"
#include "families/sorting/cpu/order.h"

namespace heddle::cpu_kernels {

// A 64-bit key with an index. Smaller keys share one u64 with a 32-bit index.
struct KeyAndIndex {
  std::uint64_t key, index;
  auto operator<=>(const KeyAndIndex&) const = default;
};

template <class T> using IndexedItem = std::conditional_t<sizeof(T) == 8, KeyAndIndex, std::uint64_t>;

inline std::int64_t index_in(const KeyAndIndex& item) { return static_cast<std::int64_t>(item.index); }
inline std::int64_t index_in(std::uint64_t item) { return static_cast<std::int64_t>(item & 0xffffffff); }

inline std::uint64_t key_in(const KeyAndIndex& item) { return item.key; }
inline std::uint64_t key_in(std::uint64_t item) { return item >> 32; }

// Inverts keys if `descending`, so that equal elements keep their order.
template <class T> IndexedItem<T> indexed_item(T value, std::int64_t index, bool descending) {
  const BitsOf<T> key = key_of(value), used = static_cast<BitsOf<T>>(descending ? ~key : key);
  if constexpr (sizeof(T) == 8) {
    return {used, static_cast<std::uint64_t>(index)};
  } else {
    return std::uint64_t{used} << 32 | static_cast<std::uint64_t>(index);
  }
}

template <class T>
void fill_indexed(const T* x, std::int64_t n, bool descending, IndexedItem<T>* items, bool parallel) {
  const auto fill = [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) items[i] = indexed_item(x[i], i, descending);
  };
  if (parallel) return parallel_chunks(n, kElementGrain, fill);
  fill(0, n);
}

// Sorts n items stably by `bits` bits from first_bit on (in a KeyAndIndex, of its key); few items by all
// bits. `other` has room for n more items. Returns the sorted items: `items` or `other`. Uses several workers
// if `parallel`.
template <class Item>
Item* sort_items(Item* items, Item* other, std::int64_t n, int first_bit, int bits, bool parallel);

extern template std::uint32_t* sort_items(std::uint32_t*, std::uint32_t*, std::int64_t, int, int, bool);
extern template std::uint64_t* sort_items(std::uint64_t*, std::uint64_t*, std::int64_t, int, int, bool);
extern template KeyAndIndex* sort_items(KeyAndIndex*, KeyAndIndex*, std::int64_t, int, int, bool);

template <class T> IndexedItem<T>* sort_indexed(IndexedItem<T>* items, std::int64_t n, bool parallel) {
  return sort_items(items, items + n, n, sizeof(T) == 8 ? 0 : 32, 8 * static_cast<int>(sizeof(T)), parallel);
}

// From this length on, several workers share one line; shorter lines are distributed to the workers.
inline constexpr std::int64_t kLongLine = std::int64_t{1} << 17;

// Calls line(i, parallel) for each of `count` lines of n elements.
inline void for_each_line(std::int64_t count, std::int64_t n,
                          FunctionRef<void(std::int64_t i, bool parallel)> line) {
  if (n >= kLongLine) {
    for (std::int64_t i = 0; i < count; ++i) line(i, true);
    return;
  }
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / (8 * std::max<std::int64_t>(1, n)));
  parallel_chunks(count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) line(i, false);
  });
}

}  // namespace heddle::cpu_kernels
