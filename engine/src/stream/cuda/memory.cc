// Memory of GPUs from CUDA's stream-ordered pool of each device, and page-locked memory.
#include <algorithm>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>

#include <heddle/error.h>
#include <heddle/gpu_memory.h>

#include "stream/gpu.h"

namespace heddle {
namespace {

void check(cudaError_t status, const char* call, int device) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // else the running op would report it as its launch's
  throw Error(std::string(call) + " on " + gpu(device).to_string() + ": " + cudaGetErrorString(status));
}

// Makes a device the thread's current one.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    check(cudaGetDevice(&before_), "cudaGetDevice", device);
    check(cudaSetDevice(device), "cudaSetDevice", device);
  }
  ~CurrentDevice() { cudaSetDevice(before_); }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = 0;
};

struct Block {
  cudaStream_t owner;  // null once it has ended
  std::size_t bytes;
  int device;
};

// Held while memory is freed on a stream, so that the stream does not end meanwhile.
struct Taken {
  std::mutex mutex;
  std::unordered_map<std::byte*, Block> blocks;
  std::map<int, std::size_t> bytes;     // by device
  std::map<int, cudaStream_t> for_all;  // streams of gpu_allocate_for_all(), by device
  std::set<int> prepared;               // devices whose pools keep memory
};

// Never destroyed: arrays may end later than static variables.
Taken& taken() {
  static Taken* const made = new Taken;
  return *made;
}

cudaMemPool_t pool_of(int device) {
  cudaMemPool_t pool = nullptr;
  check(cudaDeviceGetDefaultMemPool(&pool, device), "cudaDeviceGetDefaultMemPool", device);
  return pool;
}

// By default a pool gives memory back at every wait of the host.
void keep_memory(int device) {
  const std::lock_guard guard(taken().mutex);
  if (taken().prepared.contains(device)) return;
  std::uint64_t everything = UINT64_MAX;
  check(cudaMemPoolSetAttribute(pool_of(device), cudaMemPoolAttrReleaseThreshold, &everything),
        "cudaMemPoolSetAttribute", device);
  taken().prepared.insert(device);
}

std::byte* allocate_on(cudaStream_t stream, cudaStream_t owner, int device, std::size_t bytes) {
  keep_memory(device);
  void* memory = nullptr;
  cudaError_t status = cudaMallocAsync(&memory, bytes, stream);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    // The only wait: memory that was freed behind work of this stream is free when that work has run.
    check(cudaStreamSynchronize(owner), "cudaStreamSynchronize", device);
    check(cudaMemPoolTrimTo(pool_of(device), 0), "cudaMemPoolTrimTo", device);
    status = cudaMallocAsync(&memory, bytes, stream);
  }
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(status, "cudaMallocAsync", device);
  auto* const begin = static_cast<std::byte*>(memory);
  const std::lock_guard guard(taken().mutex);
  taken().blocks[begin] = {owner, bytes, device};
  taken().bytes[device] += bytes;
  return begin;
}

cudaStream_t stream_for_all(int device) {
  const std::lock_guard guard(taken().mutex);
  cudaStream_t& stream = taken().for_all[device];
  if (!stream) {
    const CurrentDevice scope(device);
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags", device);
  }
  return stream;
}

// Page-locked memory: CUDA takes milliseconds to lock pages, and waits for all GPUs to unlock them.
struct Pinned {
  std::mutex mutex;
  std::unordered_map<std::byte*, std::size_t> sizes;  // of all blocks
  std::multimap<std::size_t, std::byte*> kept;        // blocks that nobody has
};

Pinned& pinned() {
  static Pinned* const made = new Pinned;
  return *made;
}

// Up to a page a power of two, then multiples of pages, then of a mebibyte.
std::size_t pinned_size(std::size_t bytes) {
  constexpr std::size_t kPage = 4096, kLarge = std::size_t{1} << 20;
  std::size_t size = kPage;
  while (size < bytes && size < kLarge) size *= 2;
  return size >= bytes ? size : (bytes + kLarge - 1) / kLarge * kLarge;
}

// Call while the mutex is held.
void release_kept() {
  for (const auto& [size, memory] : pinned().kept) {
    pinned().sizes.erase(memory);
    cudaFreeHost(memory);
  }
  pinned().kept.clear();
}

}  // namespace

std::string gpu_refusal(Device device) {
  const int count = gpu_count();
  if (device.kind == DeviceKind::cuda ? device.index < count : count > 0) return "";
  return "this machine has " + std::to_string(count) + (count == 1 ? " GPU" : " GPUs");
}

std::byte* gpu_allocate(Stream& stream, Stream& owner, std::size_t bytes) {
  return allocate_on(static_cast<cudaStream_t>(stream.native()), static_cast<cudaStream_t>(owner.native()),
                     owner.device().index, bytes);
}

std::byte* gpu_allocate_for_all(Stream& owner, std::size_t bytes) {
  const int device = owner.device().index;
  const cudaStream_t stream = stream_for_all(device);
  std::byte* const memory = allocate_on(stream, static_cast<cudaStream_t>(owner.native()), device, bytes);
  if (memory) check(cudaStreamSynchronize(stream), "cudaStreamSynchronize", device);
  return memory;
}

void gpu_free(std::byte* memory) noexcept {
  const std::lock_guard guard(taken().mutex);
  const auto found = taken().blocks.find(memory);
  if (found == taken().blocks.end()) return;
  const Block block = found->second;
  taken().blocks.erase(found);
  taken().bytes[block.device] -= block.bytes;
  const cudaError_t status = block.owner ? cudaFreeAsync(memory, block.owner) : cudaFree(memory);
  if (status != cudaSuccess) cudaGetLastError();  // the GPU has failed: every op reports it
}

GpuMemoryStats gpu_memory_stats(Device device) {
  const CurrentDevice scope(device.index);
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo", device.index);
  std::uint64_t reserved = 0;
  check(cudaMemPoolGetAttribute(pool_of(device.index), cudaMemPoolAttrReservedMemCurrent, &reserved),
        "cudaMemPoolGetAttribute", device.index);
  const std::lock_guard guard(taken().mutex);
  const std::size_t in_use = taken().bytes[device.index];
  return {in_use, static_cast<std::size_t>(reserved) - std::min<std::size_t>(reserved, in_use), free};
}

void gpu_memory_trim(Device device) {
  check(cudaMemPoolTrimTo(pool_of(device.index), 0), "cudaMemPoolTrimTo", device.index);
}

std::byte* gpu_allocate_pinned(std::size_t bytes) {
  const std::size_t size = pinned_size(bytes);
  const std::lock_guard guard(pinned().mutex);
  const auto kept = pinned().kept.lower_bound(size);
  if (kept != pinned().kept.end() && kept->first <= 2 * size) {
    std::byte* const memory = kept->second;
    pinned().kept.erase(kept);
    return memory;
  }
  void* memory = nullptr;
  cudaError_t status = cudaHostAlloc(&memory, size, cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    release_kept();
    status = cudaHostAlloc(&memory, size, cudaHostAllocPortable);
  }
  if (status != cudaSuccess) cudaGetLastError();
  if (status == cudaErrorMemoryAllocation) return nullptr;
  if (status != cudaSuccess) throw Error(std::string("cudaHostAlloc: ") + cudaGetErrorString(status));
  auto* const begin = static_cast<std::byte*>(memory);
  pinned().sizes[begin] = size;
  return begin;
}

void gpu_free_pinned(std::byte* memory) noexcept {
  const std::lock_guard guard(pinned().mutex);
  const auto found = pinned().sizes.find(memory);
  if (found != pinned().sizes.end()) pinned().kept.emplace(found->second, memory);
}

void detail::gpu_stream_ends(void* native) noexcept {
  const std::lock_guard guard(taken().mutex);
  for (auto& [memory, block] : taken().blocks) {
    if (block.owner == native) block.owner = nullptr;
  }
}

}  // namespace heddle
