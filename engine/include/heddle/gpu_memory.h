// Memory of GPUs, ordered with the work of streams, and page-locked memory of the CPU. All functions may be called by any
// thread. A build without CUDA has neither: see gpu_refusal().
#pragma once

#include <cstddef>
#include <string>

#include <heddle/stream.h>

namespace heddle {

// Why no memory can be taken on a GPU or as cpu_pinned here: "this machine has 2 GPUs". Empty if it can.
std::string gpu_refusal(Device device);

// Takes memory on the device of `owner` for work that is enqueued on `stream`, of the same device, from now on. If too little
// is left, waits for the owner's work, and for that of other streams up to 0.5 s, and gives back what the device's pool keeps;
// null if that is not enough. Throws Error if CUDA fails otherwise.
std::byte* gpu_allocate(Stream& stream, Stream& owner, std::size_t bytes);
// As gpu_allocate, for work on any stream. The host waits until CUDA has the memory.
std::byte* gpu_allocate_for_all(Stream& owner, std::size_t bytes);
// Frees memory behind the work that its owner's stream has so far. Work on other streams must not use it any more. If
// the owner has ended, the memory is free at once.
void gpu_free(std::byte* memory) noexcept;

// Copies bytes from one GPU to another one, on a stream of either: GPUs do not reach each other's memory, so Stream::copy()
// may fail.
void gpu_copy_between(Stream& stream, std::byte* to, Device to_device, const std::byte* from,
                      Device from_device, std::size_t bytes);

struct GpuMemoryStats {
  std::size_t in_use;  // bytes that were taken and not freed
  std::size_t cached;  // bytes that the device's pool keeps for reuse
  std::size_t free;    // bytes that the device has left
};
// Of a GPU or of cpu_pinned(), whose free bytes are not known: 0. Another device is InvalidArgument.
GpuMemoryStats gpu_memory_stats(Device device);
// Returns cached memory: to the GPU, or page-locked memory to the system. Devices as for gpu_memory_stats.
void gpu_memory_trim(Device device);

// Page-locked memory of the CPU, which is kept for reuse. Null if there is none left.
std::byte* gpu_allocate_pinned(std::size_t bytes);
void gpu_free_pinned(std::byte* memory) noexcept;
// Whether memory of the CPU is page-locked from its first to its last byte, by whichever library.
bool is_page_locked(const void* memory, std::size_t bytes) noexcept;

}  // namespace heddle
