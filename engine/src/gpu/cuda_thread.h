// The thread of a kernel and its operations for nvcc; gpu/emulated_thread.h has the same for the emulated GPU. Included
// by gpu/kernel.h.
#pragma once

#include "gpu/kernel.h"

#define HEDDLE_DEVICE __device__
#define HEDDLE_UNROLL \
  _Pragma("unroll")  // before a loop whose indices must be constants, as those of registers
// HEDDLE_SHARED(thread, name, type): a variable in the block's shared memory, not initialised.
#define HEDDLE_SHARED(thread, name, ...) \
  __shared__ typename ::heddle::on_gpu::Identity<__VA_ARGS__>::type name

namespace heddle::on_gpu {
namespace cuda {

extern __shared__ __align__(16) unsigned char dynamic_shared_memory[];

// Bits of a value of up to 8 bytes in words that the hardware shuffles.
template <class T> struct Words {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>, "a shuffled value has 8 bytes at most");
  using type = std::conditional_t<(sizeof(T) > 4), unsigned long long, unsigned>;
  static __device__ type of(T value) {
    type bits = 0;
    memcpy(&bits, &value, sizeof(T));
    return bits;
  }
  static __device__ T back(type bits) {
    T value;
    memcpy(&value, &bits, sizeof(T));
    return value;
  }
};

}  // namespace cuda

class Thread {
 public:
  __device__ uint3 thread_index() const { return threadIdx; }
  __device__ uint3 block_index() const { return blockIdx; }
  __device__ dim3 block_dim() const { return blockDim; }
  __device__ dim3 grid_dim() const { return gridDim; }
  __device__ int rank() const {
    return static_cast<int>((threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x);
  }
  __device__ int size() const { return static_cast<int>(blockDim.x * blockDim.y * blockDim.z); }
  __device__ int lane() const { return rank() % kWarp; }
  __device__ int warp() const { return rank() / kWarp; }
  __device__ long long global_index() const {
    return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  }
  __device__ long long global_size() const { return static_cast<long long>(gridDim.x) * blockDim.x; }
  template <class T> __device__ T* dynamic_shared() const {
    return reinterpret_cast<T*>(cuda::dynamic_shared_memory);
  }

  __device__ void barrier() { __syncthreads(); }
  __device__ int barrier_count(bool what) { return __syncthreads_count(what); }
  __device__ bool barrier_and(bool what) { return __syncthreads_and(what) != 0; }
  __device__ bool barrier_or(bool what) { return __syncthreads_or(what) != 0; }
  __device__ void warp_barrier(unsigned mask = kAllLanes) { __syncwarp(mask); }

  template <class T> __device__ T shuffle(T value, int lane, unsigned mask = kAllLanes, int width = kWarp) {
    return cuda::Words<T>::back(__shfl_sync(mask, cuda::Words<T>::of(value), lane, width));
  }
  template <class T>
  __device__ T shuffle_up(T value, unsigned by, unsigned mask = kAllLanes, int width = kWarp) {
    return cuda::Words<T>::back(__shfl_up_sync(mask, cuda::Words<T>::of(value), by, width));
  }
  template <class T>
  __device__ T shuffle_down(T value, unsigned by, unsigned mask = kAllLanes, int width = kWarp) {
    return cuda::Words<T>::back(__shfl_down_sync(mask, cuda::Words<T>::of(value), by, width));
  }
  template <class T>
  __device__ T shuffle_xor(T value, int with, unsigned mask = kAllLanes, int width = kWarp) {
    return cuda::Words<T>::back(__shfl_xor_sync(mask, cuda::Words<T>::of(value), with, width));
  }
  __device__ unsigned ballot(bool what, unsigned mask = kAllLanes) { return __ballot_sync(mask, what); }
  __device__ bool any(bool what, unsigned mask = kAllLanes) { return __any_sync(mask, what) != 0; }
  __device__ bool all(bool what, unsigned mask = kAllLanes) { return __all_sync(mask, what) != 0; }
  template <class T> __device__ unsigned match_any(T value, unsigned mask = kAllLanes) {
    return __match_any_sync(mask, cuda::Words<T>::of(value));
  }

  __device__ long long clock() { return clock64(); }
  __device__ void pause() { __nanosleep(100); }
  __device__ void trap() { __trap(); }
};

namespace cuda {

template <class K> __global__ void run(const __grid_constant__ K kernel) {
  Thread thread;
  kernel(thread);
}

}  // namespace cuda

// What cudaLaunchKernel takes for the kernel type K.
template <class K> const void* entry() { return reinterpret_cast<const void*>(&cuda::run<K>); }

}  // namespace heddle::on_gpu

#include "gpu/cuda_atomics.h"
