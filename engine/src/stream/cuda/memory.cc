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

#include "stream/cuda/recorder.h"
#include "stream/cuda/status.h"
#include "stream/gpu.h"

namespace heddle {

using detail::succeeds;

namespace {

void check(cudaError_t status, const char* call, int device) {
  if (succeeds(status)) return;
  throw Error(std::string(call) + " on " + gpu(device).to_string() + ": " + cudaGetErrorString(status));
}

// Makes a device the thread's current one.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    check(cudaGetDevice(&before_), "cudaGetDevice", device);
    changed_ = before_ != device;
    if (changed_) check(cudaSetDevice(device), "cudaSetDevice", device);
  }
  ~CurrentDevice() {
    if (changed_) succeeds(cudaSetDevice(before_));
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
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
  if (!succeeds(status) && status == cudaErrorMemoryAllocation) {
    // The only wait: memory that was freed behind work of this stream is free when that work has run.
    check(cudaStreamSynchronize(owner), "cudaStreamSynchronize", device);
    check(cudaMemPoolTrimTo(pool_of(device), 0), "cudaMemPoolTrimTo", device);
    status = cudaMallocAsync(&memory, bytes, stream);
  }
  if (!succeeds(status) && status == cudaErrorMemoryAllocation) return nullptr;
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

// Frees memory behind the work of `stream`; of its owner if it is null.
void free_on(cudaStream_t stream, std::byte* memory) noexcept {
  const std::lock_guard guard(taken().mutex);
  const auto found = taken().blocks.find(memory);
  if (found == taken().blocks.end()) return;
  const Block block = found->second;
  taken().blocks.erase(found);
  taken().bytes[block.device] -= block.bytes;
  if (!stream) stream = block.owner;
  succeeds(stream ? cudaFreeAsync(memory, stream)
                  : cudaFree(memory));  // if the GPU is lost, every op says so
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

GpuMemoryStats pinned_stats() {
  const std::lock_guard guard(pinned().mutex);
  std::size_t all = 0, kept = 0;
  for (const auto& [memory, size] : pinned().sizes) all += size;
  for (const auto& [size, memory] : pinned().kept) kept += size;
  return {all - kept, kept, 0};
}

// Call while the mutex is held.
void release_kept() {
  for (const auto& [size, memory] : pinned().kept) {
    pinned().sizes.erase(memory);
    succeeds(cudaFreeHost(memory));
  }
  pinned().kept.clear();
}

cudaError_t lock_pages(void** memory, std::size_t bytes) {
  const cudaError_t status = cudaHostAlloc(memory, bytes, cudaHostAllocPortable);
  if (succeeds(status) || status == cudaErrorMemoryAllocation) return status;
  // The thread's current GPU may be lost, and the memory is for all.
  int before = 0, count = 0;
  if (!succeeds(cudaGetDevice(&before)) || !succeeds(cudaGetDeviceCount(&count))) return status;
  cudaError_t other = status;
  for (int device = 0; device < count && other != cudaSuccess; ++device) {
    if (!succeeds(cudaSetDevice(device))) continue;
    if (!succeeds(cudaHostAlloc(memory, bytes, cudaHostAllocPortable))) continue;
    other = cudaSuccess;
  }
  succeeds(cudaSetDevice(before));
  return other;
}

}  // namespace

std::string gpu_refusal(Device device) {
  const int count = gpu_count();
  if (device.kind == DeviceKind::cuda ? device.index < count : count > 0) return "";
  return "this machine has " + std::to_string(count) + (count == 1 ? " GPU" : " GPUs");
}

std::byte* gpu_allocate(Stream& stream, Stream& owner, std::size_t bytes) {
  if (detail::records_on(stream)) return detail::allocate_recorded(bytes);
  return allocate_on(static_cast<cudaStream_t>(stream.native()), static_cast<cudaStream_t>(owner.native()),
                     owner.device().index, bytes);
}

std::byte* gpu_allocate_for_all(Stream& owner, std::size_t bytes) {
  const int device = owner.device().index;
  const cudaStream_t stream = stream_for_all(device);
  std::byte* const memory = allocate_on(stream, static_cast<cudaStream_t>(owner.native()), device, bytes);
  if (!memory) return nullptr;
  const cudaError_t status = cudaStreamSynchronize(stream);
  if (!succeeds(status)) free_on(stream, memory);  // the owner's work is not ordered behind the allocation
  check(status, "cudaStreamSynchronize", device);
  return memory;
}

void gpu_free(std::byte* memory) noexcept {
  if (!detail::free_recorded(memory)) free_on({}, memory);
}

GpuMemoryStats gpu_memory_stats(Device device) {
  if (device.kind == DeviceKind::cpu_pinned) return pinned_stats();
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
  cudaError_t status = lock_pages(&memory, size);
  if (status == cudaErrorMemoryAllocation) {
    release_kept();
    status = lock_pages(&memory, size);
  }
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
