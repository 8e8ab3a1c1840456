// Prefix sums in a block, and operations on bits.
#pragma once

#include "gpu/layout.h"

namespace heddle::cuda_kernels {

constexpr int kBlockThreads = static_cast<int>(on_gpu::kThreads);
constexpr int kBlockWarps = kBlockThreads / on_gpu::kWarp;

HEDDLE_DEVICE inline unsigned count_bits(unsigned bits) {
  bits -= bits >> 1 & 0x55555555u;
  bits = (bits & 0x33333333u) + (bits >> 2 & 0x33333333u);
  return ((bits + (bits >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}
HEDDLE_DEVICE inline unsigned lanes_before(int lane) { return (1u << lane) - 1; }

// The sum of the values of the threads of lower rank. All threads of a block of kBlockThreads call it; `partial` is
// shared by them, and free for another use when it returns.
template <class T>
HEDDLE_DEVICE T block_scan(on_gpu::Thread& thread, T value, T (&partial)[kBlockWarps], T& total) {
  const int lane = thread.lane(), warp = thread.warp();
  T sum = value;
  for (int by = 1; by < on_gpu::kWarp; by *= 2) {
    const T before = thread.shuffle_up(sum, static_cast<unsigned>(by));
    if (lane >= by) sum += before;
  }
  if (lane == on_gpu::kWarp - 1) partial[warp] = sum;
  thread.barrier();
  T before = 0;
  total = 0;
  for (int k = 0; k < kBlockWarps; ++k) {
    if (k == warp) before = total;
    total += partial[k];
  }
  thread.barrier();
  return before + sum - value;
}

}  // namespace heddle::cuda_kernels
