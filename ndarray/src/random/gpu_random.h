// Random numbers on a GPU, which gpu_random.cu or no_cuda.cc defines. Plain types, since nvcc compiles C++17. Called inside of ops on the
// compute stream, whose cudaStream_t they get; they return why the kernel could not be launched, null if it was. Arrays are
// contiguous. The numbers are those of fill.h, bit by bit.
#pragma once

#include <cstdint>

namespace heddle::ndarray_detail {

struct GpuDraw {
  void* to;
  long long count;            // elements, at least one
  std::uint64_t seed, start;  // RandomBlocks
};

// f32, or f64 if `wide`.
const char* gpu_uniform(void* stream, const GpuDraw& draw, bool wide, double low, double high, double last);
const char* gpu_normal(void* stream, const GpuDraw& draw, bool wide, double mean, double stddev);
// Writes `one`, the bytes of an element of `size` bytes, where the word is below the threshold, else 0.
const char* gpu_bernoulli(void* stream, const GpuDraw& draw, int size, std::uint64_t one,
                          std::uint64_t threshold);
// Integers of `size` bytes.
const char* gpu_integers(void* stream, const GpuDraw& draw, int size, std::int64_t low, std::uint64_t count);

}  // namespace heddle::ndarray_detail
