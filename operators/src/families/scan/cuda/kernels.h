// The kernels of the scans for GPUs, in plain types: nvcc compiles C++17. register.cc registers them.
#pragma once

#include "cuda/scratch.h"

namespace heddle::cuda_kernels {

// Lines along one axis of dense arrays: `outer` blocks of `length` x `inner` elements. None is 0.
struct ScanLines {
  long long outer, length, inner;
  unsigned char dtype;  // of x and y: a DType
  const void* x;
  void* y;
};

// Launch kernels on a cudaStream_t. Return why one could not be launched; null if all were.
const char* launch_cumsum(void* stream, const ScanLines& lines, ScratchBlocks& scratch);
const char* launch_cumprod(void* stream, const ScanLines& lines, ScratchBlocks& scratch);
// y: the largest or smallest element so far; indices: i64, of the last such element.
const char* launch_cumextreme(void* stream, const ScanLines& lines, long long* indices, bool largest,
                              ScratchBlocks& scratch);

// y from the gradient g of cumprod(x), and the products of the other elements of a line. f32 or f64.
const char* launch_cumprod_gradient(void* stream, const ScanLines& lines, const void* g,
                                    ScratchBlocks& scratch);
const char* launch_product_of_others(void* stream, const ScanLines& lines, ScratchBlocks& scratch);

}  // namespace heddle::cuda_kernels
