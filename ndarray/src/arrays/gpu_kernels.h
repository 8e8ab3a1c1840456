// The kernels of gpu_copy.h, which gpu_kernels.cu or no_cuda.cc defines: CMake takes one of them. Plain types, since nvcc
// compiles C++17. Called inside of ops on the compute stream, whose cudaStream_t they get. They return why the kernel could not be
// launched; null if it was.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heddle::ndarray_detail {

constexpr int kGpuDims = 8;  // kMaxDims

struct GpuShape {
  int dims;
  long long sizes[kGpuDims];
};
struct GpuView {
  std::byte* data;      // the first element
  unsigned char dtype;  // a DType
  long long strides[kGpuDims];
};
// The bytes of one element.
struct GpuNumber {
  std::byte bytes[8];
};
struct GpuRange {
  bool exact;  // integers, which are computed from the bits
  double begin, step;
  std::uint64_t begin_bits, step_bits;
};

// target[i] = source[i] for all i of shape, as strided_copy.h.
const char* gpu_copy(void* stream, const GpuShape& shape, const GpuView& source, const GpuView& target);
const char* gpu_fill(void* stream, const GpuShape& shape, const GpuView& target, const GpuNumber& value);
const char* gpu_range(void* stream, long long count, const GpuView& target, const GpuRange& range);

}  // namespace heddle::ndarray_detail
