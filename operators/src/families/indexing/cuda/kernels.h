// Kernels of take, gather, scatter and masks for GPUs, in plain types: nvcc compiles C++17. Each function enqueues work on a cudaStream_t
// and returns why it could not; null if it could.
#pragma once

#include <cstddef>

#include "cuda/strided.h"

namespace heddle::cuda_kernels {

// Reports the indices that are out of range.
const char* launch_check(void* stream, const Indices& indices);

// y[o, i, k] = x[o, indices[i], k], of sizes outer and inner; x has indices.bound in the middle. x and y are contiguous.
const char* launch_take(void* stream, const Indices& indices, long long outer, long long inner,
                        int element_bytes, const void* x, void* y);
// y[i, k] = `one` at k = labels[i], else 0.
const char* launch_one_hot(void* stream, const Indices& labels, int element_bytes, unsigned long long one,
                           void* y);
// y[p] = x[p with indices[p] along the axis]. x has y's shape, but on the axis; indices have y's shape. Strides of
// axes that broadcast are 0. `places` are the strides of positions for errors.
const char* launch_gather(void* stream, const Strided& x, const Indices& indices, const long long* places,
                          const Strided& y, int axis);

// Row-major positions in an array of the bounds of `count` arrays of indices. Errors have kind k of indices[k].
struct FlatIndices {
  int count;
  Indices indices[kMostDims];
  long long* y;
};
const char* launch_flat_indices(void* stream, const FlatIndices& job);

// y[p with indices[p] along the axis] = source[p], or the sum, minimum or maximum, in the order of p along the axis.
struct ScatterJob {
  Indices indices;
  // True: indices, of their own shape, are those along the axis for all lines. Else they have source's shape, as in
  // launch_gather().
  bool shared;
  long long places[kMostDims];
  Strided source, y;
  int axis;
  unsigned char how;  // Scatter
};
std::size_t scatter_bytes(const ScatterJob& job);  // scratch memory
const char* launch_scatter(void* stream, const ScatterJob& job, std::byte* space);

// The elements of x where mask is true, or with `into` the elements of y there: they are, or become, the first ones of the
// other array, whose size is room. Reports the number of true elements if it is wrong.
struct MaskJob {
  const unsigned char* mask;
  long long count, room;
  const void* x;
  void* y;
  int element_bytes;
  bool into, exact;
  FaultSlot* slot;
};
std::size_t mask_bytes(long long count);  // scratch memory
const char* launch_masked(void* stream, const MaskJob& job, std::byte* space);

// y (axes, room): the indices of the elements of a mask of these sizes that are true.
struct NonzeroJob {
  const unsigned char* mask;
  int dims;
  long long sizes[kMostDims];
  long long count, room;
  long long* y;
  long long strides[2];
  FaultSlot* slot;
};
const char* launch_nonzero(void* stream, const NonzeroJob& job, std::byte* space);

}  // namespace heddle::cuda_kernels
