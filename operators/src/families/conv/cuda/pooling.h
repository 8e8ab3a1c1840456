// Pooling on a GPU, in plain types: nvcc compiles C++17. pooling_register.cc registers it.
#pragma once

namespace heddle::cuda_kernels {

// As PoolProblem. Images are (planes, in...) and (planes, out...), dense.
struct Pooling {
  long long planes;
  long long in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
  long long most[3];  // most_in_window()
  bool adaptive, count_include_pad;
  bool
      adds;  // gradients are added to 0, rather than written; windows of 2 * 2 elements without overlap: false
  bool wide;  // avg: gradients are summed in f64 for all types, since windows overlap
  const void* from;
  void* to;
  void* where;  // positions of maxima; may be null in max_pool
  unsigned char type, where_type;
};

// Launch a kernel on a cudaStream_t; planes and images are not empty. Return why it could not be launched; null if it was.
const char* launch_max_pool(void* stream, const Pooling& pooling);
const char* launch_max_pool_backward(void* stream, const Pooling& pooling);
const char* launch_avg_pool(void* stream, const Pooling& pooling);
const char* launch_avg_pool_backward(void* stream, const Pooling& pooling);

}  // namespace heddle::cuda_kernels
