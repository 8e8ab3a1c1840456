// Short lines are sorted in shared memory, as many by a block as fit. Long ones by a radix sort, the lowest digit first: a pass counts the
// digits of each tile, scans the counts in the order (line, digit, tile), which are then where each tile's keys of a digit go, and
// moves the keys. All steps are stable.
#include <cstdint>

#include "cuda/block_scan.h"
#include "cuda/radix_sort.h"
#include "cuda/scan.h"

namespace heddle::cuda_kernels {
namespace {

constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;
static_assert(kDigits == kBlockThreads, "a thread has one digit");
constexpr int kRounds = 8;
constexpr int kTile = kRounds * kBlockThreads;
constexpr long long kShort = 1024;  // up to so long lines are sorted in shared memory

long long tiles_of(long long length) { return (length + kTile - 1) / kTile; }

template <class K>
const char* launch_blocks(cudaStream_t stream, long long blocks, int threads, const K& kernel) {
  const cudaError_t status = on_gpu::launch(stream, dim3(static_cast<unsigned>(blocks)),
                                            dim3(static_cast<unsigned>(threads)), 0, kernel);
  if (status == cudaSuccess) return nullptr;
  cudaGetLastError();
  return cudaGetErrorString(status);
}

// Bitonic sorts by (key, position), which are stable since positions differ. A line takes `padded` places, the power of two from its
// length on; a block sorts the lines of `items` places, a power of two up to kShort.
template <class Key> struct SortShort {
  const Key* keys;
  Key* to_keys;
  unsigned* to_order;
  long long lines;
  int length, padded, items;

  // Where the key at a place of the block is; -1 if there is none.
  HEDDLE_DEVICE long long place_of(on_gpu::Thread& thread, int i) const {
    const long long line = static_cast<long long>(thread.block_index().x) * (items / padded) + i / padded;
    const int at = i & (padded - 1);
    return line < lines && at < length ? line * length + at : -1;
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    HEDDLE_SHARED(thread, sorted, Key[kShort]);
    HEDDLE_SHARED(thread, places, unsigned[kShort]);
    for (int i = thread.rank(); i < items; i += thread.size()) {
      const long long from = place_of(thread, i);
      sorted[i] = from >= 0 ? keys[from] : static_cast<Key>(~Key{0});
      places[i] = static_cast<unsigned>(i & (padded - 1));
    }
    thread.barrier();
    for (int run = 2; run <= padded; run *= 2) {
      for (int by = run / 2; by > 0; by /= 2) {
        for (int k = thread.rank(); k < items / 2; k += thread.size()) {
          const int a = 2 * k - (k & (by - 1)), b = a + by;
          const bool after = sorted[a] > sorted[b] || (sorted[a] == sorted[b] && places[a] > places[b]);
          if (after == ((a & (padded - 1) & run) == 0)) {
            const Key item = sorted[a];
            const unsigned place = places[a];
            sorted[a] = sorted[b], places[a] = places[b];
            sorted[b] = item, places[b] = place;
          }
        }
        thread.barrier();
      }
    }
    for (int i = thread.rank(); i < items; i += thread.size()) {
      const long long to = place_of(thread, i);
      if (to < 0) continue;
      to_keys[to] = sorted[i];
      to_order[to] = places[i];
    }
  }
};

// The keys of a block's tile.
template <class Key> struct Tile {
  long long line, tile, first;  // first: among all keys
  int count;
  HEDDLE_DEVICE Tile(on_gpu::Thread& thread, long long length, long long tiles) {
    line = thread.block_index().x / tiles;
    tile = thread.block_index().x - line * tiles;
    first = line * length + tile * kTile;
    const long long rest = length - tile * kTile;
    count = rest < kTile ? static_cast<int>(rest) : kTile;
  }
  // The index of this tile's count of a digit.
  HEDDLE_DEVICE long long count_index(int digit, long long tiles) const {
    return (line * kDigits + digit) * tiles + tile;
  }
};

template <class Key> HEDDLE_DEVICE int digit_of(Key key, int shift) {
  return static_cast<int>(key >> shift & (kDigits - 1));
}

template <class Key> struct CountDigits {
  const Key* keys;
  long long* counts;
  long long length, tiles;
  int shift;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    HEDDLE_SHARED(thread, found, int[kDigits]);
    const Tile<Key> tile(thread, length, tiles);
    found[thread.rank()] = 0;
    thread.barrier();
    for (int i = thread.rank(); i < tile.count; i += kBlockThreads)
      on_gpu::atomic_add(&found[digit_of(keys[tile.first + i], shift)], 1);
    thread.barrier();
    counts[tile.count_index(thread.rank(), tiles)] = on_gpu::atomic_load(&found[thread.rank()]);
  }
};

// Moves keys to their places by one digit. Keys are first put in order in shared memory, so that neighbours are written
// together.
template <class Key> struct MoveKeys {
  const Key* keys;
  const unsigned* order;  // null: keys are where they were at first
  Key* to_keys;
  unsigned* to_order;
  const long long* starts;
  long long length, tiles;
  int shift;

  // Ranks the keys of a warp, which are neighbours, within their digits: counts[warp][digit] becomes the number of the
  // warp's keys.
  HEDDLE_DEVICE void rank_keys(on_gpu::Thread& thread, const Tile<Key>& tile, unsigned* counts,
                               unsigned (&ranks)[kRounds]) const {
    const int first = thread.warp() * kRounds * on_gpu::kWarp + thread.lane();
    HEDDLE_UNROLL
    for (int k = 0; k < kRounds; ++k) {
      const int at = first + k * on_gpu::kWarp;
      const bool valid = at < tile.count;
      const int digit = valid ? digit_of(keys[tile.first + at], shift) : kDigits;
      const unsigned same = thread.match_any(digit), before = count_bits(same & lanes_before(thread.lane()));
      const unsigned base = valid ? counts[digit] : 0;
      thread.warp_barrier();
      if (valid && before == 0) counts[digit] = base + count_bits(same);
      thread.warp_barrier();
      ranks[k] = base + before;
    }
  }
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    HEDDLE_SHARED(thread, counts, unsigned[kBlockWarps][kDigits]);
    HEDDLE_SHARED(thread, partial, unsigned[kBlockWarps]);
    HEDDLE_SHARED(thread, targets, long long[kDigits]);
    HEDDLE_SHARED(thread, staged, Key[kTile]);
    HEDDLE_SHARED(thread, places, unsigned[kTile]);
    const Tile<Key> tile(thread, length, tiles);
    const int digit = thread.rank();
    for (int warp = 0; warp < kBlockWarps; ++warp) counts[warp][digit] = 0;
    thread.barrier();
    unsigned ranks[kRounds];
    rank_keys(thread, tile, counts[thread.warp()], ranks);
    thread.barrier();
    unsigned sum = 0, total;
    for (int warp = 0; warp < kBlockWarps; ++warp) sum += counts[warp][digit];
    unsigned start = block_scan(thread, sum, partial, total);
    targets[digit] = starts[tile.count_index(digit, tiles)] - start;
    for (int warp = 0; warp < kBlockWarps; ++warp) {
      const unsigned own = counts[warp][digit];
      counts[warp][digit] = start;
      start += own;
    }
    thread.barrier();
    HEDDLE_UNROLL
    for (int k = 0; k < kRounds; ++k) {
      const int at = (thread.warp() * kRounds + k) * on_gpu::kWarp + thread.lane();
      if (at >= tile.count) continue;
      const Key key = keys[tile.first + at];
      const unsigned to = counts[thread.warp()][digit_of(key, shift)] + ranks[k];
      staged[to] = key;
      places[to] = order ? order[tile.first + at] : static_cast<unsigned>(tile.tile * kTile + at);
    }
    thread.barrier();
    for (int i = thread.rank(); i < tile.count; i += kBlockThreads) {
      const long long to = targets[digit_of(staged[i], shift)] + i;
      to_keys[to] = staged[i];
      to_order[to] = places[i];
    }
  }
};

// The parts of the scratch memory.
struct Space {
  std::byte* keys[2];
  unsigned* order[2];
  long long *counts, *sums;
  std::size_t bytes;
};

Space space_of(std::byte* begin, long long lines, long long length, int key_bytes) {
  const auto count = static_cast<std::size_t>(lines * length);
  const long long counters = length <= kShort ? 0 : lines * kDigits * tiles_of(length);
  std::size_t used = 0;
  const auto part = [&](std::size_t bytes) {
    std::byte* const at = begin + used;
    used += (bytes + 255) / 256 * 256;
    return at;
  };
  Space space{};
  for (int k = 0; k < 2; ++k) {
    space.keys[k] = part(count * static_cast<std::size_t>(key_bytes));
    space.order[k] = reinterpret_cast<unsigned*>(part(count * sizeof(unsigned)));
  }
  space.counts = reinterpret_cast<long long*>(part(static_cast<std::size_t>(counters) * sizeof(long long)));
  space.sums =
      reinterpret_cast<long long*>(part(static_cast<std::size_t>(scan_space(counters)) * sizeof(long long)));
  space.bytes = used;
  return space;
}

template <class Key>
const char* sort_short(cudaStream_t stream, const SortJob& job, const Space& space, SortedKeys& sorted) {
  int padded = 2;
  while (padded < job.length) padded *= 2;
  int items = padded;
  while (items < kShort && items < job.lines * padded) items *= 2;
  const long long blocks = (job.lines + items / padded - 1) / (items / padded);
  const int threads = items / 2 < 32 ? 32 : items / 2 > kBlockThreads ? kBlockThreads : items / 2;
  sorted = {space.keys[1], space.order[1]};
  return launch_blocks(
      stream, blocks, threads,
      SortShort<Key>{reinterpret_cast<const Key*>(space.keys[0]), reinterpret_cast<Key*>(space.keys[1]),
                     space.order[1], job.lines, static_cast<int>(job.length), padded, items});
}

template <class Key>
const char* sort_long(cudaStream_t stream, const SortJob& job, const Space& space, SortedKeys& sorted) {
  const long long tiles = tiles_of(job.length), blocks = job.lines * tiles;
  int from = 0;
  for (int shift = 0; shift == 0 || shift < job.bits; shift += kDigitBits, from = 1 - from) {
    const Key* const keys = reinterpret_cast<const Key*>(space.keys[from]);
    const CountDigits<Key> count{keys, space.counts, job.length, tiles, shift};
    if (const char* problem = launch_blocks(stream, blocks, kBlockThreads, count)) return problem;
    if (const char* problem = exclusive_scan(stream, space.counts, blocks * kDigits, space.sums, nullptr))
      return problem;
    const MoveKeys<Key> move{keys,
                             shift == 0 ? nullptr : space.order[from],
                             reinterpret_cast<Key*>(space.keys[1 - from]),
                             space.order[1 - from],
                             space.counts,
                             job.length,
                             tiles,
                             shift};
    if (const char* problem = launch_blocks(stream, blocks, kBlockThreads, move)) return problem;
  }
  sorted = {space.keys[from], space.order[from]};
  return nullptr;
}

template <class Key>
const char* sort_as(cudaStream_t stream, const SortJob& job, const Space& space, SortedKeys& sorted) {
  return job.length <= kShort ? sort_short<Key>(stream, job, space, sorted)
                              : sort_long<Key>(stream, job, space, sorted);
}

}  // namespace

std::size_t sort_bytes(long long lines, long long length, int key_bytes) {
  return space_of(nullptr, lines, length, key_bytes).bytes;
}

void* keys_to_sort(const SortJob& job) { return job.space; }

const char* sort_keys(void* on, const SortJob& job, SortedKeys& sorted) {
  const auto stream = static_cast<cudaStream_t>(on);
  const Space space = space_of(job.space, job.lines, job.length, job.key_bytes);
  sorted = {space.keys[0], space.order[0]};
  if (job.lines * job.length == 0) return nullptr;
  return job.key_bytes == 4 ? sort_as<std::uint32_t>(stream, job, space, sorted)
                            : sort_as<std::uint64_t>(stream, job, space, sorted);
}

}  // namespace heddle::cuda_kernels
