// How the threads of a kernel find the elements of several arrays of one shape.
#pragma once

#include <cstdlib>

#include "gpu/kernel.h"

namespace heddle::on_gpu {

constexpr int kLayoutDims = 8;
constexpr unsigned kThreads = 256;  // of a block

// N arrays, the last of which is written. Axes are ordered by the strides of the last one, outermost first, and merged
// where that is possible in all arrays.
template <int N> struct Layout {
  int dims;
  long long count;  // elements
  long long sizes[kLayoutDims];
  long long steps[kLayoutDims][N];  // in elements

  // Offsets of the index-th element.
  HEDDLE_DEVICE void locate(long long index, long long (&offsets)[N]) const {
    for (int k = 0; k < N; ++k) offsets[k] = 0;
    for (int d = dims - 1; d >= 0; --d) {
      long long at;
      if (d == 0) {
        at = index;
      } else if (count <= 0x7fffffff) {  // a division of 64 bits takes several times as long
        const unsigned rest = static_cast<unsigned>(index) / static_cast<unsigned>(sizes[d]);
        at = static_cast<unsigned>(index) - rest * static_cast<unsigned>(sizes[d]);
        index = rest;
      } else {
        at = index % sizes[d];
        index /= sizes[d];
      }
      for (int k = 0; k < N; ++k) offsets[k] += at * steps[d][k];
    }
  }
};

// strides[k][axis]: those of array k. All sizes are above 0.
template <int N>
Layout<N> make_layout(int dims, const long long* sizes, const long long* const (&strides)[N]) {
  Layout<N> made{};
  made.count = 1;
  for (int axis = 0; axis < dims; ++axis) {
    made.count *= sizes[axis];
    if (sizes[axis] == 1) continue;
    int at = made.dims++;
    for (; at > 0 && std::llabs(made.steps[at - 1][N - 1]) < std::llabs(strides[N - 1][axis]); --at) {
      made.sizes[at] = made.sizes[at - 1];
      for (int k = 0; k < N; ++k) made.steps[at][k] = made.steps[at - 1][k];
    }
    made.sizes[at] = sizes[axis];
    for (int k = 0; k < N; ++k) made.steps[at][k] = strides[k][axis];
  }
  int last = 0;
  for (int d = 1; d < made.dims; ++d) {
    bool fits = true;
    for (int k = 0; k < N; ++k) fits &= made.steps[last][k] == made.steps[d][k] * made.sizes[d];
    if (!fits) ++last;
    made.sizes[last] = fits ? made.sizes[last] * made.sizes[d] : made.sizes[d];
    for (int k = 0; k < N; ++k) made.steps[last][k] = made.steps[d][k];
  }
  if (made.dims == 0) made.sizes[0] = 1, made.dims = 1;
  if (made.dims > last + 1) made.dims = last + 1;
  return made;
}

// Launches a kernel whose threads take elements by turns. Returns why it could not be launched; null if it was.
template <class K> const char* launch_over(cudaStream_t stream, long long elements, const K& kernel) {
  const dim3 blocks(blocks_for(elements, kThreads));
  const cudaError_t status = launch(stream, blocks, dim3(kThreads), 0, kernel);
  if (status == cudaSuccess) return nullptr;
  cudaGetLastError();
  return cudaGetErrorString(status);
}

}  // namespace heddle::on_gpu
