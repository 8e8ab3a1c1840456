// Distinct elements. Few of them are counted in a hash table in one pass over x; else x is sorted.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "cpu/register.h"
#include "cpu/scratch.h"
#include "cpu/sorting/items.h"
#include "kernels/sorting_kernels.h"

namespace heddle::cpu_kernels {

namespace {

constexpr std::int64_t kFewElements = 128;  // std::sort is as fast
constexpr std::size_t kMostDistinct = 4096;
constexpr std::int64_t kMostChunks = 64;

// Where the results go; all but values may be null.
struct Found {
  std::int64_t *indices, *inverse, *counts;
  bool all() const { return indices; }
};

// Up to kMostDistinct keys, in the order in which they came.
template <class Bits> class FewKeys {
 public:
  struct Entry {
    Bits key;
    std::int64_t first, count;
  };

  explicit FewKeys(std::int64_t elements)
      : slots_(std::bit_ceil(4 * std::min(static_cast<std::size_t>(elements), kMostDistinct)), 0),
        shift_(64 - std::countr_zero(slots_.size())) {}

  // Its number, or -1 if there are too many.
  std::int64_t add(Bits key, std::int64_t first, std::int64_t count) {
    std::size_t slot = (std::uint64_t{key} * 0x9e3779b97f4a7c15) >> shift_;  // Fibonacci hashing
    for (; slots_[slot] != 0; slot = (slot + 1) & (slots_.size() - 1)) {
      Entry& entry = entries_[slots_[slot] - 1u];
      if (entry.key != key) continue;
      entry.count += count;
      return slots_[slot] - 1;
    }
    if (entries_.size() == kMostDistinct) return -1;
    entries_.push_back({key, first, count});
    slots_[slot] = static_cast<std::uint16_t>(entries_.size());
    return slots_[slot] - 1;
  }

  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<std::uint16_t> slots_;  // number of the entry + 1; 0: none
  int shift_;
  std::vector<Entry> entries_;
};

// One chunk's part of x, and which number each of its keys has among all.
template <class T> struct Chunk {
  FewKeys<BitsOf<T>> keys;
  std::vector<std::int64_t> ranks;
  bool complete = true;
};

// Counts x[begin .. end). Fails for too many keys, and for NaNs that are distinct.
template <class T>
void count_keys(const T* x, std::int64_t begin, std::int64_t end, bool equal_nan, std::int64_t* inverse,
                Chunk<T>& chunk) {
  for (std::int64_t i = begin; i < end; ++i) {
    const BitsOf<T> key = key_of(x[i]);
    const std::int64_t number =
        kHasNaN<T> && !equal_nan && key == kNaNKey<T> ? -1 : chunk.keys.add(key, i, 1);
    if (number < 0) {
      chunk.complete = false;
      return;
    }
    if (inverse) inverse[i] = number;
  }
}

// The number of distinct elements, or nothing if there are too many.
template <class T>
std::optional<std::int64_t> by_counting(const T* x, std::int64_t n, bool equal_nan, T* values,
                                        const Found& to) {
  using Keys = FewKeys<BitsOf<T>>;
  const std::int64_t size = n < kLongLine ? n : std::max(kElementGrain, (n + kMostChunks - 1) / kMostChunks);
  const std::int64_t count = (n + size - 1) / size;
  std::vector<Chunk<T>> chunks(static_cast<std::size_t>(count), Chunk<T>{Keys(size), {}});
  const auto each_chunk = [&](const auto& body) {
    parallel_chunks(count, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t c = first; c < last; ++c)
        body(chunks[static_cast<std::size_t>(c)], c * size, std::min(n, (c + 1) * size));
    });
  };
  // What has too many keys often shows it in its first chunk.
  count_keys(x, 0, std::min(n, size), equal_nan, to.inverse, chunks[0]);
  if (!chunks[0].complete) return {};
  each_chunk([&](Chunk<T>& chunk, std::int64_t begin, std::int64_t end) {
    if (begin > 0) count_keys(x, begin, end, equal_nan, to.inverse, chunk);
  });
  Keys all(n);
  for (Chunk<T>& chunk : chunks) {
    if (!chunk.complete) return {};
    for (const auto& entry : chunk.keys.entries()) {
      chunk.ranks.push_back(all.add(entry.key, entry.first, entry.count));
      if (chunk.ranks.back() < 0) return {};
    }
  }
  const auto& entries = all.entries();
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < entries.size(); ++i) order.push_back(i);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return entries[a].key < entries[b].key; });
  std::vector<std::int64_t> rank_of(entries.size());
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const auto& entry = entries[order[rank]];
    rank_of[order[rank]] = static_cast<std::int64_t>(rank);
    values[rank] = x[entry.first];
    if (!to.all()) continue;
    to.indices[rank] = entry.first;
    to.counts[rank] = entry.count;
  }
  if (to.all())
    each_chunk([&](Chunk<T>& chunk, std::int64_t begin, std::int64_t end) {
      for (std::int64_t& rank : chunk.ranks) rank = rank_of[static_cast<std::size_t>(rank)];
      for (std::int64_t i = begin; i < end; ++i)
        to.inverse[i] = chunk.ranks[static_cast<std::size_t>(to.inverse[i])];
    });
  return static_cast<std::int64_t>(entries.size());
}

template <class T>
std::int64_t by_sorting(const T* x, std::int64_t n, bool equal_nan, T* values, const Found& to) {
  const Scratch memory(static_cast<std::size_t>(2 * n) * sizeof(IndexedItem<T>));
  auto* items = memory.as<IndexedItem<T>>();
  const bool parallel = n >= kLongLine;
  fill_indexed(x, n, false, items, parallel);
  items = sort_indexed<T>(items, n, parallel);
  const auto apart = [&](std::int64_t i) {
    const std::uint64_t key = key_in(items[i]);
    return key != key_in(items[i - 1]) || (kHasNaN<T> && !equal_nan && key == kNaNKey<T>);
  };
  std::int64_t found = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t at = index_in(items[i]);
    const bool first = i == 0 || apart(i);
    if (first) values[found++] = x[at];
    if (!to.all()) continue;
    if (first) {
      to.indices[found - 1] = at;
      to.counts[found - 1] = 0;
    }
    ++to.counts[found - 1];
    to.inverse[at] = found - 1;
  }
  return found;
}

// Integers alone: their keys are all that there is.
template <class T> std::int64_t by_sorting_keys(const T* x, std::int64_t n, T* values) {
  using Item = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  const Scratch memory(static_cast<std::size_t>(2 * n) * sizeof(Item));
  Item* items = memory.as<Item>();
  const bool parallel = n >= kLongLine;
  parallel_chunks(n, kElementGrain, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) items[i] = key_of(x[i]);
  });
  items = sort_items(items, items + n, n, 0, 8 * static_cast<int>(sizeof(T)), parallel);
  const Item* end = std::unique(items, items + n);
  for (const Item* item = items; item < end; ++item)
    values[item - items] = value_of_key<T>(static_cast<BitsOf<T>>(*item));
  return end - items;
}

void unique_kernel(const NDArray& x, const NDArray& values, const NDArray& indices, const NDArray& inverse,
                   const NDArray& counts, const NDArray& number, bool equal_nan) {
  const std::int64_t n = x.size();
  Found to{};
  if (indices.defined())
    to = {indices.data<std::int64_t>(), inverse.data<std::int64_t>(), counts.data<std::int64_t>()};
  auto* found = number.data<std::int64_t>();
  visit_dtype(x.dtype(), [&]<class T> {
    const T* from = x.data<const T>();
    T* into = values.data<T>();
    std::optional<std::int64_t> counted;
    if (n > kFewElements) counted = by_counting(from, n, equal_nan, into, to);
    if (counted)
      *found = *counted;
    else if (!kHasNaN<T> && !to.all())
      *found = by_sorting_keys(from, n, into);
    else
      *found = by_sorting(from, n, equal_nan, into, to);
  });
}

}  // namespace

void register_unique(KernelTable& table) {
  table.add<UniqueKernel>("unique", DeviceKind::cpu, unique_kernel);
}

}  // namespace heddle::cpu_kernels
