// Kernels that sort and search on GPUs, in plain types. Functions enqueue work on a cudaStream_t and return why they could not; null if
// they could.
#pragma once

#include <cstddef>

#include "cuda/strided.h"

namespace heddle::cuda_kernels {

// Lines along the last axis of contiguous arrays: values and indices get the elements of ranks first to first + count - 1.
struct SortLines {
  const void* x;
  long long lines, length, first, count;
  unsigned char type;
  bool descending;
  void* values;        // may be null
  long long* indices;  // may be null
};
std::size_t sort_space(const SortLines& job);
const char* launch_sort(void* stream, const SortLines& job, std::byte* space);

struct UniqueJob {
  const void* x;
  long long count;
  unsigned char type;
  bool equal_nan;
  void* values;
  long long *indices, *inverse, *counts;  // null: not wanted
  long long* number;
};
std::size_t unique_space(const UniqueJob& job);
const char* launch_unique(void* stream, const UniqueJob& job, std::byte* space);

// y has the shape of values.
const char* launch_search(void* stream, const void* sorted, long long length, const Strided& values,
                          const Strided& y, bool right);

// least and most are elements of the type of the edges, bins + 1 of them.
enum BoundsFault : int { kInfiniteBounds, kFallingBounds };
const char* launch_edges(void* stream, const void* least, const void* most, void* edges, long long bins,
                         unsigned char type, FaultSlot* slot);
const char* launch_histogram(void* stream, const void* x, long long count, const void* edges, long long bins,
                             unsigned char type, long long* counts);
const char* launch_bincount(void* stream, const long long* x, long long count, long long* y, long long bound,
                            FaultSlot* slot);
// y = x, of numbers in [0, 1].
const char* launch_fractions(void* stream, const double* x, double* y, long long count, FaultSlot* slot);

}  // namespace heddle::cuda_kernels
