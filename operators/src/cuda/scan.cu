// Prefix sums in three steps: those of each tile, those of the tiles' sums, and both added up. Up to kTile values take
// one step.
#include "cuda/block_scan.h"
#include "cuda/scan.h"

namespace heddle::cuda_kernels {
namespace {

constexpr int kEach = 4;  // values of a thread
constexpr long long kTile = kEach * kBlockThreads;

long long tiles_of(long long count) { return count <= kTile ? 1 : (count + kTile - 1) / kTile; }

// One block a tile, or with `loops` one block that takes all tiles in turn.
struct ScanTiles {
  long long* values;
  long long count;
  long long* sums;  // one a tile; with `loops` the sum of all; may be null
  bool loops;

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    HEDDLE_SHARED(thread, partial, long long[kBlockWarps]);
    long long carry = 0;
    const long long tiles = count <= kTile ? 1 : (count + kTile - 1) / kTile;
    for (long long tile = loops ? 0 : thread.block_index().x; tile < tiles; ++tile) {
      const long long first = tile * kTile + static_cast<long long>(thread.rank()) * kEach;
      long long own[kEach], sum = 0, total = 0;
      for (int k = 0; k < kEach; ++k) {
        own[k] = first + k < count ? values[first + k] : 0;
        sum += own[k];
      }
      long long before = carry + block_scan(thread, sum, partial, total);
      for (int k = 0; k < kEach; ++k) {
        if (first + k < count) values[first + k] = before;
        before += own[k];
      }
      carry += total;
      if (!loops) break;
    }
    if (thread.rank() == 0 && sums) sums[loops ? 0 : thread.block_index().x] = carry;
  }
};

struct AddSums {
  long long* values;
  long long count;
  const long long* sums;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < count; i += thread.global_size())
      values[i] += sums[i / kTile];
  }
};

const char* scan_tiles(cudaStream_t stream, long long blocks, const ScanTiles& kernel) {
  const cudaError_t status =
      on_gpu::launch(stream, dim3(static_cast<unsigned>(blocks)), dim3(kBlockThreads), 0, kernel);
  if (status == cudaSuccess) return nullptr;
  cudaGetLastError();
  return cudaGetErrorString(status);
}

}  // namespace

long long scan_space(long long count) { return tiles_of(count); }

const char* exclusive_scan(void* on, long long* values, long long count, long long* space, long long* total) {
  const auto stream = static_cast<cudaStream_t>(on);
  const long long tiles = tiles_of(count);
  if (tiles == 1) return scan_tiles(stream, 1, {values, count, total, true});
  if (const char* problem = scan_tiles(stream, tiles, {values, count, space, false})) return problem;
  if (const char* problem = scan_tiles(stream, 1, {space, tiles, total, true})) return problem;
  return on_gpu::launch_over(stream, count, AddSums{values, count, space});
}

}  // namespace heddle::cuda_kernels
