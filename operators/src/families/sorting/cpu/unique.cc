// Kernel of distinct elements. Integers of a small range are counted in a table, few distinct elements in a
// hash table; otherwise x is sorted.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/kernel_table.h"
#include "cpu/scratch.h"
#include "families/sorting/cpu/items.h"
#include "families/sorting/kernels.h"

namespace heddle::cpu_kernels {

namespace {

constexpr std::int64_t kFewElements = 128;  // up to so many elements sorting is as fast
constexpr std::size_t kMostDistinct = 4096;
constexpr std::int64_t kMostChunks = 64;

// How x is split into chunks, so that several workers can count.
struct Chunks {
  explicit Chunks(std::int64_t n)
      : elements(n),
        size(n < kLongLine ? n : std::max(kElementGrain, (n + kMostChunks - 1) / kMostChunks)),
        number((n + size - 1) / size) {}
  // Calls body(chunk, begin, end) for each chunk.
  void each(FunctionRef<void(std::size_t chunk, std::int64_t begin, std::int64_t end)> body) const {
    parallel_chunks(number, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t c = first; c < last; ++c)
        body(static_cast<std::size_t>(c), c * size, std::min(elements, (c + 1) * size));
    });
  }
  std::int64_t elements, size, number;
};

// Where to write indices, inverse and counts; null if only the distinct values are wanted.
struct Found {
  std::int64_t *indices, *inverse, *counts;
  bool all() const { return indices; }
};

// A hash table of up to kMostDistinct keys, in the order in which they were added.
template <class Bits> class FewKeys {
 public:
  struct Entry {
    Bits key;
    std::int64_t first, count;
  };

  explicit FewKeys(std::int64_t elements)
      : slots_(std::bit_ceil(4 * std::min(static_cast<std::size_t>(elements), kMostDistinct)), 0),
        shift_(64 - std::countr_zero(slots_.size())) {}

  // Adds `count` to the key's entry; returns the entry's number, or -1 if there are too many keys.
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
  std::vector<std::uint16_t> slots_;  // entry number + 1; 0: empty
  int shift_;
  std::vector<Entry> entries_;
};

// The distinct keys of one chunk of x, and the number of each among the keys of all chunks.
template <class T> struct ChunkKeys {
  FewKeys<BitsOf<T>> keys;
  std::vector<std::int64_t> ranks;
  bool complete = true;
};

// Counts the keys of x[begin .. end). Clears chunk.complete for too many keys, or a NaN if NaNs are not
// equal.
template <class T>
void count_keys(const T* x, std::int64_t begin, std::int64_t end, bool equal_nan, std::int64_t* inverse,
                ChunkKeys<T>& chunk) {
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

// The keys of the smallest and of the largest element.
template <class T> std::array<BitsOf<T>, 2> range_of(const T* x, std::int64_t begin, std::int64_t end) {
  T least = x[begin], most = least;
  for (std::int64_t i = begin; i < end; ++i) {
    const T value = x[i];
    least = value < least ? value : least;
    most = value > most ? value : most;
  }
  return {key_of(least), key_of(most)};
}

// Which of the `places` keys from `least` on occur in x[begin .. end); with `all` also their first indices
// and counts.
template <class T> class KeyTable {
 public:
  // Returns false if an element's key is outside the table.
  bool count(const T* x, std::int64_t begin, std::int64_t end, BitsOf<T> least, std::size_t places,
             bool all) {
    seen.resize(places);
    firsts.resize(all ? places : 0, -1);
    counts.resize(all ? places : 0);
    for (std::int64_t block = begin; block < end; block += kBlock) {
      const std::int64_t last = std::min(end, block + kBlock);
      const auto [low, high] = range_of(x, block, last);
      if (low < least || std::uint64_t{high} - least >= places) return false;
      all ? count_block(x, block, last, least) : mark_block(x, block, last, least);
    }
    return true;
  }

  static std::size_t place_of(T value, BitsOf<T> least) {
    return static_cast<std::size_t>(static_cast<BitsOf<T>>(key_of(value) - least));
  }

  // The size of a block, small enough to stay in the core's cache between range_of() and the second pass.
  static constexpr std::int64_t kBlock = 2048;
  std::vector<std::uint8_t> seen;
  std::vector<std::int64_t> firsts, counts;

 private:
  void mark_block(const T* x, std::int64_t begin, std::int64_t end, BitsOf<T> least) {
    std::uint8_t* const to = seen.data();
    for (std::int64_t i = begin; i < end; ++i) to[place_of(x[i], least)] = 1;
  }
  void count_block(const T* x, std::int64_t begin, std::int64_t end, BitsOf<T> least) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::size_t place = place_of(x[i], least);
      if (!seen[place]) firsts[place] = i;
      seen[place] = 1;
      ++counts[place];
    }
  }
};

// Finds distinct integers by a KeyTable around the keys of the first block. Returns their number; nullopt if
// a key is outside the table.
template <class T>
std::optional<std::int64_t> by_table(const T* x, std::int64_t n, T* values, const Found& to) {
  constexpr std::uint64_t kMostPlaces = 16384, kMargin = 4096;
  const std::int64_t looked_at = std::min(n, KeyTable<T>::kBlock);
  const std::uint64_t margin = looked_at == n ? 0 : kMargin;
  const auto [low, high] = range_of(x, 0, looked_at);
  if (std::uint64_t{high} - low + 2 * margin >= kMostPlaces) return {};
  const auto least = static_cast<BitsOf<T>>(low - std::min(std::uint64_t{low}, margin));
  const auto places = static_cast<std::size_t>(high - least + margin + 1);
  const Chunks chunks(n);
  std::vector<KeyTable<T>> tables(static_cast<std::size_t>(chunks.number));
  std::atomic<bool> complete{true};
  chunks.each([&](std::size_t chunk, std::int64_t begin, std::int64_t end) {
    if (!tables[chunk].count(x, begin, end, least, places, to.all())) complete = false;
  });
  if (!complete) return {};
  std::int64_t found = 0;
  std::vector<std::int64_t> ranks(places);
  for (std::size_t place = 0; place < places; ++place) {
    std::int64_t first = -1, count = 0;
    bool seen = false;
    for (const KeyTable<T>& table : tables) {
      if (!table.seen[place]) continue;
      seen = true;
      if (!to.all()) break;
      if (first < 0) first = table.firsts[place];
      count += table.counts[place];
    }
    if (!seen) continue;
    ranks[place] = found;
    values[found] = value_of_key<T>(static_cast<BitsOf<T>>(least + place));
    if (to.all()) {
      to.indices[found] = first;
      to.counts[found] = count;
    }
    ++found;
  }
  if (to.all())
    chunks.each([&](std::size_t, std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) to.inverse[i] = ranks[KeyTable<T>::place_of(x[i], least)];
    });
  return found;
}

// Merges the keys of all chunks; each chunk's ranks become the numbers of its keys in the result. Returns
// nullopt if there are too many.
template <class T>
std::optional<FewKeys<BitsOf<T>>> joined(std::vector<ChunkKeys<T>>& parts, std::int64_t n) {
  FewKeys<BitsOf<T>> all(n);
  for (ChunkKeys<T>& part : parts) {
    if (!part.complete) return {};
    for (const auto& entry : part.keys.entries()) {
      part.ranks.push_back(all.add(entry.key, entry.first, entry.count));
      if (part.ranks.back() < 0) return {};
    }
  }
  return all;
}

// Finds distinct elements by hash tables. Returns their number; nullopt if there are too many.
template <class T>
std::optional<std::int64_t> by_counting(const T* x, std::int64_t n, bool equal_nan, T* values,
                                        const Found& to) {
  using Keys = FewKeys<BitsOf<T>>;
  const Chunks chunks(n);
  std::vector<ChunkKeys<T>> parts(static_cast<std::size_t>(chunks.number),
                                  ChunkKeys<T>{Keys(chunks.size), {}});
  // Counts the first chunk alone. If x has too many distinct keys, this chunk often has, too.
  count_keys(x, 0, std::min(n, chunks.size), equal_nan, to.inverse, parts[0]);
  if (!parts[0].complete) return {};
  chunks.each([&](std::size_t chunk, std::int64_t begin, std::int64_t end) {
    if (begin > 0) count_keys(x, begin, end, equal_nan, to.inverse, parts[chunk]);
  });
  const std::optional<Keys> all = joined(parts, n);
  if (!all) return {};
  const auto& entries = all->entries();
  std::vector<std::pair<BitsOf<T>, std::size_t>> order;
  for (std::size_t i = 0; i < entries.size(); ++i) order.emplace_back(entries[i].key, i);
  std::sort(order.begin(), order.end());
  std::vector<std::int64_t> rank_of(entries.size());
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const auto& entry = entries[order[rank].second];
    rank_of[order[rank].second] = static_cast<std::int64_t>(rank);
    values[rank] = x[entry.first];
    if (!to.all()) continue;
    to.indices[rank] = entry.first;
    to.counts[rank] = entry.count;
  }
  if (to.all())
    chunks.each([&](std::size_t chunk, std::int64_t begin, std::int64_t end) {
      std::vector<std::int64_t>& ranks = parts[chunk].ranks;
      for (std::int64_t& rank : ranks) rank = rank_of[static_cast<std::size_t>(rank)];
      for (std::int64_t i = begin; i < end; ++i)
        to.inverse[i] = ranks[static_cast<std::size_t>(to.inverse[i])];
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

// Sorts the keys without the indices. For integers, where key and value determine each other.
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

void unique_kernel(const KernelContext&, const NDArray& x, const NDArray& values, const NDArray& indices,
                   const NDArray& inverse, const NDArray& counts, const NDArray& number, bool equal_nan) {
  const std::int64_t n = x.size();
  Found to{};
  if (indices.defined())
    to = {indices.data<std::int64_t>(), inverse.data<std::int64_t>(), counts.data<std::int64_t>()};
  auto* found = number.data<std::int64_t>();
  visit_dtype(x.dtype(), [&]<class T> {
    const T* from = x.data<const T>();
    T* into = values.data<T>();
    std::optional<std::int64_t> counted;
    if constexpr (!kHasNaN<T>) {
      if (n > kFewElements) counted = by_table(from, n, into, to);
    }
    if (n > kFewElements && !counted) counted = by_counting(from, n, equal_nan, into, to);
    if (counted)
      *found = *counted;
    else if (!kHasNaN<T> && !to.all())
      *found = by_sorting_keys(from, n, into);
    else
      *found = by_sorting(from, n, equal_nan, into, to);
  });
}

}  // namespace

HEDDLE_CPU_KERNELS(unique) { table.add<UniqueKernel>("unique", DeviceKind::cpu, unique_kernel); }

}  // namespace heddle::cpu_kernels
