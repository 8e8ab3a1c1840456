// Radix sort by digits, the lowest first. A pass counts and moves in chunks, each of which has places of its own for every
// digit: so it is stable, and the result does not depend on workers.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cpu/sorting/items.h"

namespace heddle::cpu_kernels {

namespace {

constexpr int kDigitBits = 11;
constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;
constexpr std::int64_t kFew = 1024;  // the counters of a radix sort cost more
constexpr std::int64_t kMostChunks = 64;

template <class Item> std::size_t digit_of(const Item& item, int shift) {
  return static_cast<std::size_t>(item >> shift) & (kDigits - 1);
}
std::size_t digit_of(const KeyAndIndex& item, int shift) { return digit_of(item.key, shift); }

// False if all items have the same digit: then nothing is moved.
template <class Item>
bool pass(const Item* from, Item* to, std::int64_t n, int shift, std::int64_t chunk,
          std::vector<std::int64_t>& places) {
  const std::int64_t chunks = (n + chunk - 1) / chunk;
  places.assign(static_cast<std::size_t>(chunks) * kDigits, 0);
  const auto each_item = [&](const auto& body) {
    parallel_chunks(chunks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        std::int64_t* place = places.data() + static_cast<std::size_t>(c) * kDigits;
        const std::int64_t last = std::min(n, (c + 1) * chunk);
        for (std::int64_t i = c * chunk; i < last; ++i) body(from[i], place);
      }
    });
  };
  each_item([&](const Item& item, std::int64_t* place) { ++place[digit_of(item, shift)]; });
  std::int64_t next = 0;
  for (std::size_t digit = 0; digit < kDigits; ++digit) {
    const std::int64_t first = next;
    for (std::int64_t c = 0; c < chunks; ++c)
      next += std::exchange(places[static_cast<std::size_t>(c) * kDigits + digit], next);
    if (next - first == n) return false;
  }
  each_item([&](const Item& item, std::int64_t* place) { to[place[digit_of(item, shift)]++] = item; });
  return true;
}

}  // namespace

template <class Item>
Item* sort_items(Item* items, Item* other, std::int64_t n, int first_bit, int bits, bool parallel) {
  if (n <= kFew) {
    std::sort(items, items + n);
    return items;
  }
  const std::int64_t chunk = parallel ? std::max(kElementGrain, (n + kMostChunks - 1) / kMostChunks) : n;
  std::vector<std::int64_t> places;
  for (int shift = first_bit; shift < first_bit + bits; shift += kDigitBits)
    if (pass(items, other, n, shift, chunk, places)) std::swap(items, other);
  return items;
}

template std::uint32_t* sort_items(std::uint32_t*, std::uint32_t*, std::int64_t, int, int, bool);
template std::uint64_t* sort_items(std::uint64_t*, std::uint64_t*, std::int64_t, int, int, bool);
template KeyAndIndex* sort_items(KeyAndIndex*, KeyAndIndex*, std::int64_t, int, int, bool);

}  // namespace heddle::cpu_kernels
