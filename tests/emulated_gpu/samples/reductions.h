// Sample kernels that reduce.
#pragma once

#include <cmath>

#include "gpu/kernel.h"

namespace heddle::test {

enum class Bug { none, barrier_dropped, off_by_one, not_atomic, divergent, wrong_lane, early_return };

constexpr unsigned kBlock = 256;  // threads of a block

// The sum of `value` over the block, in every thread. `partial` is shared memory for a number a warp.
template <Bug bug, class T> HEDDLE_DEVICE T block_sum(on_gpu::Thread& thread, T value, T* partial) {
  for (int by = on_gpu::kWarp / 2; by > 0; by /= 2)
    value += thread.shuffle_down(value, static_cast<unsigned>(by));
  if (thread.lane() == 0) partial[thread.warp()] = value;
  if constexpr (bug != Bug::barrier_dropped) thread.barrier();
  T total = 0;
  for (int warp = 0; warp < thread.size() / on_gpu::kWarp; ++warp) total += partial[warp];
  thread.barrier();  // the caller may use `partial` again
  return total;
}

// *total += the sum of all elements. The dynamic shared memory holds a double a warp.
template <Bug bug> struct Sum {
  const double* values;
  double* total;
  long long count;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    double own = 0;
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) own += values[i];
    if constexpr (bug == Bug::early_return) {
      if (thread.global_index() >= count) return;
    }
    if constexpr (bug == Bug::wrong_lane)
      own += thread.shuffle(own, 40, 0x0000ffffu << (thread.lane() / 16 * 16));
    const double sum = block_sum<bug>(thread, own, thread.dynamic_shared<double>());
    if (thread.rank() != 0) return;
    if constexpr (bug == Bug::not_atomic) {
      *total += sum;
    } else {
      on_gpu::atomic_add(total, sum);
    }
  }
};

// A block computes the softmax of one row. The dynamic shared memory holds a float a warp.
template <Bug bug> struct SoftmaxRows {
  const float* in;
  float* out;
  int columns;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long row = static_cast<long long>(thread.block_index().x) * columns;
    auto* partial = thread.dynamic_shared<float>();
    float most = -3.4e38f;
    for (int i = thread.rank(); i < columns; i += thread.size())
      most = in[row + i] > most ? in[row + i] : most;
    for (int with = 1; with < on_gpu::kWarp; with *= 2) {
      const float other = thread.shuffle_xor(most, with);
      most = other > most ? other : most;
    }
    if (thread.lane() == 0) partial[thread.warp()] = most;
    thread.barrier();
    for (int warp = 0; warp < thread.size() / on_gpu::kWarp; ++warp) {
      most = partial[warp] > most ? partial[warp] : most;
    }
    // Without it a fast warp overwrites what a slow one still reads.
    if constexpr (bug != Bug::barrier_dropped) thread.barrier();
    float sum = 0;
    for (int i = thread.rank(); i < columns; i += thread.size()) sum += expf(in[row + i] - most);
    const float total = block_sum<Bug::none>(thread, sum, partial);
    if constexpr (bug == Bug::divergent) {
      if (thread.rank() < 100) thread.barrier();
    }
    for (int i = thread.rank(); i < columns; i += thread.size())
      out[row + i] = expf(in[row + i] - most) / total;
  }
};

}  // namespace heddle::test
