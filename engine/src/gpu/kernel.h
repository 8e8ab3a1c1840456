// What a GPU kernel may use. One text is compiled by nvcc for a GPU, and by a C++ compiler for the emulated GPU
// (tests/emulated_gpu), which runs every CUDA thread as a fiber. See docs/gpu.md.
//
// A kernel is a function object: its members are the arguments, operator() is what one thread does.
//
//   struct Add {
//     const float *a, *b;
//     float* sum;
//     long long count;
//     HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
//       for (long long i = thread.global_index(); i < count; i += thread.global_size()) sum[i] = a[i] + b[i];
//     }
//   };
//   on_gpu::launch(stream, blocks, 256, 0, Add{a, b, sum, count});
//
// The headers included here define, alike for both compilers: HEDDLE_DEVICE, HEDDLE_SHARED, HEDDLE_UNROLL, the class
// Thread, the atomic operations and entry().
#pragma once

#include <cstddef>
#include <cuda_runtime_api.h>
#include <type_traits>

#include "gpu/room.h"

namespace heddle::on_gpu {

constexpr int kWarp = 32;                       // threads in a warp
constexpr unsigned kAllLanes = 0xffffffffu;     // the mask of a whole warp
constexpr std::size_t kSharedBytes = 48 << 10;  // what a kernel may ask for without allow_shared()

// relaxed: the operation alone is atomic. acq_rel: it also orders what the thread reads and writes before and after.
enum class Order { relaxed, acq_rel };

// A parameter Same<T> takes no part in finding T.
template <class T> struct Identity { using type = T; };
template <class T> using Same = typename Identity<T>::type;

}  // namespace heddle::on_gpu

#if defined(__CUDACC__)
#include "gpu/cuda_thread.h"
#else
#include "gpu/emulated_thread.h"
#endif

namespace heddle::on_gpu {

// Launches a kernel on a stream of the current device. Returns what cudaLaunchKernel returns; an error of the launch
// is also the calling thread's cudaGetLastError(). The kernel is copied.
template <class K>
cudaError_t launch(cudaStream_t stream, dim3 grid, dim3 block, std::size_t shared_bytes, const K& kernel) {
  static_assert(std::is_trivially_copyable_v<K>, "a kernel is copied to the GPU byte by byte");
  static_assert(sizeof(K) <= 4096, "a kernel's arguments have 4096 bytes at most");
  void* arguments[] = {const_cast<K*>(&kernel)};
  const cudaError_t status = cudaLaunchKernel(entry<K>(), grid, block, arguments, shared_bytes, stream);
  // CUDA loads a kernel at its first launch, for which the pool may have left no memory.
  if (status != cudaErrorMemoryAllocation || !gpu_make_room(stream)) return status;
  return cudaLaunchKernel(entry<K>(), grid, block, arguments, shared_bytes, stream);
}

// Lets kernels of type K ask for more than kSharedBytes of dynamic shared memory.
template <class K> cudaError_t allow_shared(int bytes) {
  return cudaFuncSetAttribute(entry<K>(), cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
}

// The number of blocks that gives each of `count` elements a thread, at most `most`.
constexpr unsigned blocks_for(long long count, unsigned threads, unsigned most = 1u << 16) {
  const long long blocks = (count + threads - 1) / threads;
  return blocks < 1 ? 1 : blocks > most ? most : static_cast<unsigned>(blocks);
}

}  // namespace heddle::on_gpu
