// What a stream does: kernels, copies, fills and functions of the host. Streams enqueue them, graphs keep them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <memory>
#include <variant>

#include "gpu/kernel.h"

namespace heddle::emulated_gpu {

struct KernelCall {
  const on_gpu::emulated::Kernel* kernel;
  dim3 grid, block;
  std::size_t shared_bytes;
  std::shared_ptr<void> argument;
};

struct CopyCall {
  void* to;
  std::size_t to_pitch;
  const void* from;
  std::size_t from_pitch, width, height;
  std::shared_ptr<void> staged{};  // a copy of pageable memory of the host, at which `from` points
};

struct FillCall {
  void* to;
  std::size_t pitch;
  unsigned value;
  unsigned element;           // bytes of an element: 1, 2 or 4
  std::size_t width, height;  // width in elements
};

struct HostCall {
  cudaHostFn_t fn;
  void* data;
};

struct Operation {
  std::variant<std::monostate, KernelCall, CopyCall, FillCall, HostCall> what{};
};

cudaGraphNodeType type_of(const Operation& operation);

// Does the work of one operation on a device, unless that, or for a copy the device of its memory, has failed since it was enqueued,
// when there had been so many `failures`. An error makes the device fail.
void run(const Operation& operation, int device, std::uint64_t failures) noexcept;

// Checks a launch as CUDA does. Throws Failure.
KernelCall checked_launch(const void* function, dim3 grid, dim3 block, void** arguments,
                          std::size_t shared_bytes, int shared_limit);

}  // namespace heddle::emulated_gpu
