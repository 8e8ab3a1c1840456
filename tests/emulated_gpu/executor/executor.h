// Runs the grid of a kernel on host threads: each CUDA thread is a fiber.
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>
#include <string>

#include "gpu/kernel.h"

namespace heddle::emulated_gpu {

struct Grid {
  const on_gpu::emulated::Kernel* kernel;
  const void* argument;  // the function object
  dim3 blocks, threads;
  std::size_t shared_bytes;
  // Chooses the order of threads, warps and blocks, and how many blocks take turns. 0: the natural order, one block at
  // a time.
  std::uint64_t seed;
  int host_threads;  // among which the blocks are divided
};

struct KernelFailure {
  cudaError_t error = cudaSuccess;
  std::string text;  // kernel, block, threads and what they did
};

// Returns when all threads have ended, or at the first failure.
KernelFailure run_grid(const Grid& grid);

std::string name_of(const on_gpu::emulated::Kernel& kernel);

// For a signal handler. in_kernel: whether the calling host thread runs a thread of a kernel. fail_in_kernel ends the
// kernel with an error, and does not return.
bool in_kernel();
[[noreturn]] void fail_in_kernel(cudaError_t error, const std::string& what);

}  // namespace heddle::emulated_gpu
