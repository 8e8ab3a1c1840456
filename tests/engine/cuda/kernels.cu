#include "kernels.h"

namespace heddle::test {
namespace {

constexpr int kThreads = 256;

__global__ void affine_kernel(int* to, const int* from, int count, int factor, int term, long long busy) {
  const long long begin = clock64();
  while (clock64() - begin < busy) {
  }
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) to[i] = from[i] * factor + term;
}

__global__ void wait_for_host_kernel(const volatile int* flag) {
  while (*flag == 0) {
  }
}

__global__ void trap_kernel() { __trap(); }

cudaStream_t of(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

void affine(void* stream, int* to, const int* from, int count, int factor, int term, long long busy) {
  affine_kernel<<<(count + kThreads - 1) / kThreads, kThreads, 0, of(stream)>>>(to, from, count, factor, term,
                                                                                busy);
}

void wait_for_host(void* stream, const volatile int* flag) {
  wait_for_host_kernel<<<1, 1, 0, of(stream)>>>(flag);
}

void unlaunchable(void* stream, int* to) { affine_kernel<<<1, 1 << 20, 0, of(stream)>>>(to, to, 1, 1, 1, 0); }

void trap(void* stream) { trap_kernel<<<1, 1, 0, of(stream)>>>(); }

}  // namespace heddle::test
