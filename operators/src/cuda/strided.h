// Arrays and arrays of indices as kernels for GPUs are given them, in plain types: nvcc compiles C++17.
#pragma once

#include "cuda/fault_slot.h"

namespace heddle::cuda_kernels {

constexpr int kMostDims = 8;  // kMaxDims

struct Strided {
  void* data;  // the first element
  int dims;
  long long sizes[kMostDims];
  long long strides[kMostDims];  // in elements
  unsigned char type;            // a DType
};

inline long long count_of(const Strided& array) {
  long long count = 1;
  for (int d = 0; d < array.dims; ++d) count *= array.sizes[d];
  return count;
}

// Integers below `bound`, and with from_end from -bound on. Kernels check them where they read them.
struct Indices {
  Strided array;
  long long bound;
  bool from_end;
  FaultSlot* slot;  // null: those out of range are left out without an error
};

}  // namespace heddle::cuda_kernels
