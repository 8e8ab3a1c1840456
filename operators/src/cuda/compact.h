// Kernels that number the elements for which a flag is true, in their order: a count for each tile, prefix sums of the counts, and a
// second look at the flags.
//
// Flag: bool operator()(long long i) const. Sink: void operator()(long long i, bool flag, long long before) const, in
// which `before` is how many flags before i are true.
#pragma once

#include "cuda/block_scan.h"
#include "cuda/scan.h"

namespace heddle::cuda_kernels {

namespace compact {

constexpr int kRounds = 8;  // each warp takes kRounds times 32 neighbours
constexpr long long kTile = kRounds * kBlockThreads;
inline long long tiles_of(long long count) { return count <= kTile ? 1 : (count + kTile - 1) / kTile; }

template <class Flag> struct Count {
  Flag flag;
  long long count;
  long long* counts;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    HEDDLE_SHARED(thread, sum, int);
    if (thread.rank() == 0) sum = 0;
    thread.barrier();
    int own = 0;
    const long long begin = thread.block_index().x * kTile;
    for (int k = 0; k < kRounds; ++k) {
      const long long i = begin + k * kBlockThreads + thread.rank();
      own += i < count && flag(i);
    }
    for (unsigned by = 16; by > 0; by /= 2) own += thread.shuffle_down(own, by);
    if (thread.lane() == 0) on_gpu::atomic_add(&sum, own);
    thread.barrier();
    if (thread.rank() == 0) counts[thread.block_index().x] = on_gpu::atomic_load(&sum);
  }
};

template <class Flag, class Sink> struct Number {
  Flag flag;
  Sink sink;
  long long count;
  const long long* starts;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    HEDDLE_SHARED(thread, warps, int[kBlockWarps]);
    const long long first =
        thread.block_index().x * kTile + static_cast<long long>(thread.warp()) * kRounds * on_gpu::kWarp;
    unsigned lanes[kRounds];
    int own = 0;
    HEDDLE_UNROLL
    for (int k = 0; k < kRounds; ++k) {
      const long long i = first + k * on_gpu::kWarp + thread.lane();
      lanes[k] = thread.ballot(i < count && flag(i));
      own += static_cast<int>(count_bits(lanes[k]));
    }
    if (thread.lane() == 0) warps[thread.warp()] = own;
    thread.barrier();
    long long before = starts[thread.block_index().x];
    for (int k = 0; k < thread.warp(); ++k) before += warps[k];
    HEDDLE_UNROLL
    for (int k = 0; k < kRounds; ++k) {
      const long long i = first + k * on_gpu::kWarp + thread.lane();
      const unsigned bits = lanes[k];
      if (i < count)
        sink(i, (bits >> thread.lane() & 1) != 0, before + count_bits(bits & lanes_before(thread.lane())));
      before += count_bits(bits);
    }
  }
};

template <class K> const char* launch_tiles(cudaStream_t stream, long long tiles, const K& kernel) {
  const cudaError_t status =
      on_gpu::launch(stream, dim3(static_cast<unsigned>(tiles)), dim3(kBlockThreads), 0, kernel);
  if (status == cudaSuccess) return nullptr;
  cudaGetLastError();
  return cudaGetErrorString(status);
}

}  // namespace compact

// How many long longs of scratch memory number_flags() needs.
inline long long compact_space(long long count) {
  return compact::tiles_of(count) + scan_space(compact::tiles_of(count));
}

// Calls `sink` for each of `count` elements. *total = how many flags are true.
template <class Flag, class Sink>
const char* number_flags(cudaStream_t stream, long long count, const Flag& flag, const Sink& sink,
                         long long* space, long long* total) {
  const long long tiles = compact::tiles_of(count);
  if (const char* problem = compact::launch_tiles(stream, tiles, compact::Count<Flag>{flag, count, space}))
    return problem;
  if (const char* problem = exclusive_scan(stream, space, tiles, space + tiles, total)) return problem;
  return compact::launch_tiles(stream, tiles, compact::Number<Flag, Sink>{flag, sink, count, space});
}

}  // namespace heddle::cuda_kernels
