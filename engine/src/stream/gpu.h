// The engine's interface to GPUs. CMake takes either cuda/stream.cc and cuda/memory.cc or no_cuda.cc, which define these
// functions, gpu_count of <heddle/device.h> and those of <heddle/gpu_memory.h>.
#pragma once

#include <memory>

#include <heddle/stream.h>

namespace heddle::detail {

// Around calls for a GPU, on any thread: leaves the thread's state of CUDA as it was (cuda/thread_state.h). Does nothing for
// other devices.
class GpuCalls {
 public:
  explicit GpuCalls(Device device);
  ~GpuCalls();
  GpuCalls(const GpuCalls&) = delete;
  GpuCalls& operator=(const GpuCalls&) = delete;

 private:
  [[maybe_unused]] int device_before_ = -1, capture_mode_before_ = -1;
};

// Throws Error if there is no such GPU, or the build is without CUDA.
std::unique_ptr<Stream> make_gpu_stream(Device device, Lane lane);
// Throws InvalidArgument, naming the call, unless the device is a GPU of this machine or cpu_pinned, if that has a GPU.
void check_memory_of(const char* call, Device device);
// A stream calls the first when it is made; the second when its work has run, before it ends: memory whose owner it is
// (gpu_memory.h) is freed without it.
void gpu_stream_begins(void* native, int device);
void gpu_stream_ends(void* native) noexcept;

}  // namespace heddle::detail
