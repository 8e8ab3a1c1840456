// Kernels for GPUs beside the products of matrices, in plain types: nvcc compiles C++17. register.cc registers them.
#pragma once

namespace heddle::cuda_kernels {

// sums (columns), of dtype `sums_type`, = the sum of the rows of g (rows, columns), dense. `parts` is column_sums_bytes() of memory.
struct ColumnSums {
  const void* g;
  void* sums;
  long long rows, columns;
  unsigned char type, sums_type;
};
long long column_sums_bytes(const ColumnSums& problem);
const char* launch_column_sums(void* stream, const ColumnSums& problem, void* parts);

// out = 0 where y <= 0, else g. All are dense.
struct ReluMask {
  const void *g, *y;
  void* out;
  long long count;
  unsigned char type;
};
const char* launch_relu_mask(void* stream, const ReluMask& problem);

}  // namespace heddle::cuda_kernels
