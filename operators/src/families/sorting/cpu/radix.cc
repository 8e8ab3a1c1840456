// Radix sort. A long line is first partitioned by its highest digit, in chunks with separate write positions
// for every digit; each partition is then sorted by its other digits, the lowest first. All steps are stable,
// so the result does not depend on the workers.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "families/sorting/cpu/items.h"

namespace heddle::cpu_kernels {

namespace {

constexpr std::int64_t kFew = 128;        // up to so many items std::sort is faster than counting digits
constexpr std::int64_t kSmall = 1 << 13;  // up to so many items short digits, with fewer counters, are faster
constexpr std::int64_t kMostChunks = 64;
constexpr int kTopBits = 11;
constexpr std::size_t kTopDigits = std::size_t{1} << kTopBits;

std::uint64_t bits_in(const KeyAndIndex& item) { return item.key; }
std::uint64_t bits_in(std::uint64_t item) { return item; }

template <std::size_t kDigits, class Item> std::size_t digit_of(const Item& item, int shift) {
  return static_cast<std::size_t>(bits_in(item) >> shift) & (kDigits - 1);
}

// Sorts by bits first to last - 1. Returns the sorted items: `items` or `other`. Counts all digits in one
// pass; skips a digit that is the same in all items.
template <int kBits, class Item>
Item* sort_by_digits(Item* items, Item* other, std::int64_t n, int first, int last) {
  constexpr std::size_t kDigits = std::size_t{1} << kBits;
  std::array<std::array<std::int64_t, kDigits>, (64 + kBits - 1) / kBits> places;
  const int passes = (last - first + kBits - 1) / kBits;
  for (int p = 0; p < passes; ++p) places[static_cast<std::size_t>(p)].fill(0);
  for (std::int64_t i = 0; i < n; ++i)
    for (int p = 0; p < passes; ++p)
      ++places[static_cast<std::size_t>(p)][digit_of<kDigits>(items[i], first + p * kBits)];
  for (int p = 0; p < passes; ++p) {
    auto& place = places[static_cast<std::size_t>(p)];
    const int shift = first + p * kBits;
    if (place[digit_of<kDigits>(items[0], shift)] == n) continue;
    std::int64_t next = 0;
    for (std::int64_t& count : place) next += std::exchange(count, next);
    for (std::int64_t i = 0; i < n; ++i) other[place[digit_of<kDigits>(items[i], shift)]++] = items[i];
    std::swap(items, other);
  }
  return items;
}

template <class Item> Item* sort_line(Item* items, Item* other, std::int64_t n, int first, int last) {
  if (n <= kFew) {
    std::sort(items, items + n);
    return items;
  }
  return n <= kSmall ? sort_by_digits<8>(items, other, n, first, last)
                     : sort_by_digits<11>(items, other, n, first, last);
}

// Moves the items to `other`, grouped by the digit at `shift`. Returns where the items of each digit begin in
// `other`, then n.
template <class Item>
std::vector<std::int64_t> part(const Item* items, Item* other, std::int64_t n, int shift) {
  const std::int64_t chunk = std::max(kElementGrain, (n + kMostChunks - 1) / kMostChunks);
  const std::int64_t chunks = (n + chunk - 1) / chunk;
  std::vector<std::int64_t> places(static_cast<std::size_t>(chunks) * kTopDigits, 0);
  const auto each_item = [&](const auto& body) {
    parallel_chunks(chunks, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t c = begin; c < end; ++c) {
        std::int64_t* place = places.data() + static_cast<std::size_t>(c) * kTopDigits;
        const std::int64_t last = std::min(n, (c + 1) * chunk);
        for (std::int64_t i = c * chunk; i < last; ++i) body(items[i], place);
      }
    });
  };
  each_item([&](const Item& item, std::int64_t* place) { ++place[digit_of<kTopDigits>(item, shift)]; });
  std::vector<std::int64_t> begins;
  std::int64_t next = 0;
  for (std::size_t digit = 0; digit < kTopDigits; ++digit) {
    begins.push_back(next);
    for (std::int64_t c = 0; c < chunks; ++c)
      next += std::exchange(places[static_cast<std::size_t>(c) * kTopDigits + digit], next);
  }
  begins.push_back(n);
  each_item([&](const Item& item, std::int64_t* place) {
    other[place[digit_of<kTopDigits>(item, shift)]++] = item;
  });
  return begins;
}

// The bits in which the items differ.
template <class Item> std::uint64_t varying_bits(const Item* items, std::int64_t n) {
  std::vector<std::uint64_t> found(static_cast<std::size_t>((n + kElementGrain - 1) / kElementGrain), 0);
  parallel_chunks(n, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    std::uint64_t bits = 0;
    for (std::int64_t i = begin; i < end; ++i) bits |= bits_in(items[i]) ^ bits_in(items[0]);
    found[static_cast<std::size_t>(begin / kElementGrain)] = bits;
  });
  std::uint64_t all = 0;
  for (const std::uint64_t bits : found) all |= bits;
  return all;
}

}  // namespace

template <class Item>
Item* sort_items(Item* items, Item* other, std::int64_t n, int first_bit, int bits, bool parallel) {
  if (!parallel || n <= kFew) return sort_line(items, other, n, first_bit, first_bit + bits);
  const int top = std::max(first_bit, static_cast<int>(std::bit_width(varying_bits(items, n))));
  const int shift = std::max(first_bit, top - kTopBits);
  const std::vector<std::int64_t> begins = part(items, other, n, shift);
  parallel_chunks(static_cast<std::int64_t>(kTopDigits), 1, [&](std::int64_t digit, std::int64_t) {
    const std::int64_t begin = begins[static_cast<std::size_t>(digit)];
    const std::int64_t size = begins[static_cast<std::size_t>(digit) + 1] - begin;
    if (size == 0) return;
    Item* from = other + begin;
    const Item* sorted = shift == first_bit ? from : sort_line(from, items + begin, size, first_bit, shift);
    if (sorted == from) std::copy(from, from + size, items + begin);
  });
  return items;
}

template std::uint32_t* sort_items(std::uint32_t*, std::uint32_t*, std::int64_t, int, int, bool);
template std::uint64_t* sort_items(std::uint64_t*, std::uint64_t*, std::int64_t, int, int, bool);
template KeyAndIndex* sort_items(KeyAndIndex*, KeyAndIndex*, std::int64_t, int, int, bool);

}  // namespace heddle::cpu_kernels
