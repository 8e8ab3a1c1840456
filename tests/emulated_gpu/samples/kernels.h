// Sample kernels: each shows how a common pattern is written, and is tested against a serial oracle. A parameter plants
// a bug, which the emulated GPU has to find.
#pragma once

#include "samples/reductions.h"

namespace heddle::test {

constexpr int kBins = 64;
constexpr int kTile = 32, kTileRows = 8;  // a block of 32 x 8 threads transposes 32 x 32 elements

template <Bug bug> struct VectorAdd {
  const float *a, *b;
  float* sum;
  long long count;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long end = bug == Bug::off_by_one ? count + 1 : count;
    for (long long i = thread.global_index(); i < end; i += thread.global_size()) {
      if (i < count) {
        sum[i] = a[i] + b[i];
      } else {
        sum[i] = 0;
      }
    }
  }
};

template <Bug bug> struct Transpose {
  const float* in;  // rows x columns
  float* out;
  int rows, columns;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    HEDDLE_SHARED(thread, tile, float[kTile][kTile + 1]);
    const int x = static_cast<int>(thread.thread_index().x), y = static_cast<int>(thread.thread_index().y);
    const int left = static_cast<int>(thread.block_index().x) * kTile;
    const int top = static_cast<int>(thread.block_index().y) * kTile;
    const int last_row = bug == Bug::off_by_one ? rows : rows - 1;
    for (int i = y; i < kTile; i += kTileRows) {
      if (left + x < columns && top + i <= last_row) {
        tile[i][x] = in[static_cast<long long>(top + i) * columns + left + x];
      }
    }
    if constexpr (bug != Bug::barrier_dropped) thread.barrier();
    for (int i = y; i < kTile; i += kTileRows) {
      if (top + x <= last_row && left + i < columns) {
        out[static_cast<long long>(left + i) * rows + top + x] = tile[x][i];
      }
    }
  }
};

// counts[v] += how often v is among the values, each below kBins.
template <Bug bug> struct Histogram {
  const int* values;
  int* counts;
  long long count;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    HEDDLE_SHARED(thread, own, int[kBins]);
    for (int i = thread.rank(); i < kBins; i += thread.size()) own[i] = 0;
    thread.barrier();
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      on_gpu::atomic_add(&own[values[i]], 1);
    }
    if constexpr (bug != Bug::barrier_dropped) thread.barrier();
    for (int i = thread.rank(); i < kBins; i += thread.size()) {
      if constexpr (bug == Bug::not_atomic) {
        counts[i] += own[i];
      } else {
        on_gpu::atomic_add(&counts[i], own[i]);
      }
    }
  }
};

// out[i] = the sum of in[0] ... in[i] of each block's kBlock elements; sums[block] is that of the last.
template <Bug bug> struct BlockScan {
  const int* in;
  int *out, *sums;
  long long count;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    HEDDLE_SHARED(thread, line, int[2][kBlock]);
    const int rank = thread.rank();
    const long long i = thread.global_index();
    int from = 0;
    line[0][rank] = i < count ? in[i] : 0;
    for (int by = 1; by < static_cast<int>(kBlock); by *= 2) {
      if constexpr (bug != Bug::barrier_dropped) thread.barrier();
      line[1 - from][rank] = line[from][rank] + (rank >= by ? line[from][rank - by] : 0);
      from = 1 - from;
    }
    if (i < count) out[i] = line[from][rank];
    if (rank == static_cast<int>(kBlock) - 1 && sums) sums[thread.block_index().x] = line[from][rank];
  }
};

// out[i] += the sum of the blocks before.
struct AddBefore {
  int* out;
  const int* before;  // inclusive sums of the blocks
  long long count;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long i = thread.global_index();
    const unsigned block = thread.block_index().x;
    if (i < count && block > 0) out[i] += before[block - 1];
  }
};

// Writes the value to every element.
struct Fill {
  float* out;
  float value;
  long long count;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) out[i] = value;
  }
};

}  // namespace heddle::test
