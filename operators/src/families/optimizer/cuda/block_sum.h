// Sums of a block's threads in a fixed order.
#pragma once

#include "gpu/kernel.h"

namespace heddle::cuda_kernels {

constexpr int kSumThreads = 256;

// The sum of the values of all threads of a block of kSumThreads, in thread 0: halves of a warp are added, then the warps in turn.
HEDDLE_DEVICE inline double block_sum(on_gpu::Thread& thread, double value) {
  HEDDLE_SHARED(thread, of_warps, double[kSumThreads / 32]);
  for (int by = 16; by > 0; by /= 2) value += thread.shuffle_down(value, static_cast<unsigned>(by));
  if (thread.lane() == 0) of_warps[thread.warp()] = value;
  thread.barrier();
  if (thread.rank() == 0)
    for (int warp = 1; warp < kSumThreads / 32; ++warp) value += of_warps[warp];
  thread.barrier();
  return value;
}

}  // namespace heddle::cuda_kernels
