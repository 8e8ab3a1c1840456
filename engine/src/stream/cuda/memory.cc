// Memory of GPUs from a stream-ordered pool of CUDA's for each device, and page-locked memory.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cuda_runtime_api.h>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include <heddle/error.h>
#include <heddle/gpu_memory.h>

#include "gpu/room.h"
#include "stream/cuda/recorder.h"
#include "stream/cuda/status.h"
#include "stream/cuda/thread_state.h"
#include "stream/gpu.h"

namespace heddle {

using detail::CurrentDevice;
using detail::succeeds;

namespace {

void check(cudaError_t status, const char* call, int device) {
  if (succeeds(status)) return;
  throw Error(std::string(call) + " on " + gpu(device).to_string() + ": " + cudaGetErrorString(status));
}

// A stream of the engine's. Memory is freed behind the work of some.
struct Owner {
  Owner(cudaStream_t of, int on) : stream(of), device(on) {}
  // Held while memory is freed on the stream, which does not end meanwhile. No other lock is held then: cudaFreeAsync waits
  // while the stream's queue is full, perhaps for work that other threads enqueue elsewhere.
  std::mutex mutex;
  cudaStream_t stream;  // null once it has ended
  const int device;
};

struct Block {
  std::shared_ptr<Owner> owner;
  std::size_t bytes;
  int device;
};

struct Taken {
  detail::ForkMutex mutex;  // guards all below; nobody waits for a GPU while it is held
  std::unordered_map<std::byte*, Block> blocks;
  std::unordered_map<cudaStream_t, std::shared_ptr<Owner>> owners;
  std::map<int, std::size_t> bytes;     // by device
  std::map<int, cudaStream_t> for_all;  // streams of gpu_allocate_for_all(), by device
  std::uint64_t frees = 0;              // counts them
  std::condition_variable_any freed;
};

// Never destroyed: arrays may end later than static variables.
Taken& taken() {
  static Taken* const made = new Taken;
  return *made;
}

// The engine's pool of a device, which keeps memory: by default a pool gives it back at every wait of the host. Not the default
// pool, which other libraries use and set.
cudaMemPool_t pool_of(int device) {
  static std::mutex mutex;  // guards pools; held while one is made
  static auto* const pools = new std::map<int, cudaMemPool_t>;
  const std::lock_guard guard(mutex);
  if (const auto found = pools->find(device); found != pools->end()) return found->second;
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  cudaMemPool_t pool = nullptr;
  check(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate", device);
  std::uint64_t everything = UINT64_MAX;
  const cudaError_t status = cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &everything);
  if (!succeeds(status)) succeeds(cudaMemPoolDestroy(pool));
  check(status, "cudaMemPoolSetAttribute", device);
  return pools->emplace(device, pool).first->second;
}

// Whether the engine's streams on a device have work left.
bool has_work(int device) {
  std::vector<std::shared_ptr<Owner>> streams;
  {
    const std::lock_guard guard(taken().mutex);
    for (const auto& [stream, owner] : taken().owners) {
      if (owner->device == device) streams.push_back(owner);
    }
  }
  return std::any_of(streams.begin(), streams.end(), [](const std::shared_ptr<Owner>& owner) {
    const std::unique_lock lock(owner->mutex, std::try_to_lock);
    if (!lock) return true;  // memory is being freed
    if (!owner->stream) return false;
    const cudaError_t status = cudaStreamQuery(owner->stream);
    return !succeeds(status) && status == cudaErrorNotReady;
  });
}

std::uint64_t count_frees() {
  const std::lock_guard guard(taken().mutex);
  return taken().frees;
}

// Asks for memory that the device had too little of. The only waits: memory that was freed behind work of the owner is free
// when that has run. Ops on other streams free theirs when they are done; they are given some time, since they may wait for
// work of other threads or processes.
cudaError_t allocate_later(void** memory, cudaStream_t stream, cudaStream_t owner, int device,
                           std::size_t bytes) {
  constexpr std::chrono::milliseconds kMostWait{500}, kIdleWait{5};
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo", device);
  if (bytes > total) return cudaErrorMemoryAllocation;
  check(cudaStreamSynchronize(owner), "cudaStreamSynchronize", device);
  for (const auto begin = std::chrono::steady_clock::now();;) {
    const std::uint64_t frees = count_frees();
    const bool works = has_work(device);
    check(cudaMemPoolTrimTo(pool_of(device), 0), "cudaMemPoolTrimTo", device);
    const cudaError_t status = cudaMallocFromPoolAsync(memory, bytes, pool_of(device), stream);
    if (succeeds(status) || status != cudaErrorMemoryAllocation) return status;
    if (std::chrono::steady_clock::now() - begin > kMostWait) return status;
    std::unique_lock lock(taken().mutex);
    const bool freed = taken().freed.wait_for(lock, kIdleWait, [&] { return taken().frees != frees; });
    if (!freed && !works) return status;
  }
}

std::byte* allocate_on(cudaStream_t stream, cudaStream_t owner, int device, std::size_t bytes) {
  const cudaMemPool_t pool = pool_of(device);
  void* memory = nullptr;
  cudaError_t status = cudaMallocFromPoolAsync(&memory, bytes, pool, stream);
  if (!succeeds(status) && status == cudaErrorMemoryAllocation)
    status = allocate_later(&memory, stream, owner, device, bytes);
  if (!succeeds(status) && status == cudaErrorMemoryAllocation) return nullptr;
  check(status, "cudaMallocFromPoolAsync", device);
  auto* const begin = static_cast<std::byte*>(memory);
  const std::lock_guard guard(taken().mutex);
  std::shared_ptr<Owner>& of = taken().owners[owner];
  if (!of) of = std::make_shared<Owner>(owner, device);
  taken().blocks[begin] = {of, bytes, device};
  taken().bytes[device] += bytes;
  return begin;
}

cudaStream_t stream_for_all(int device) {
  const std::lock_guard guard(taken().mutex);
  cudaStream_t& stream = taken().for_all[device];
  if (!stream) {
    const CurrentDevice scope(device);
    check(scope.status(), "cudaSetDevice", device);
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags", device);
  }
  return stream;
}

// Frees memory behind the work of `stream`; of its owner if it is null.
void free_on(cudaStream_t stream, std::byte* memory) noexcept {
  if (detail::forked_with_cuda()) return;
  Block block;
  {
    const std::lock_guard guard(taken().mutex);
    const auto found = taken().blocks.find(memory);
    if (found == taken().blocks.end()) return;
    block = std::move(found->second);
    taken().blocks.erase(found);
    taken().bytes[block.device] -= block.bytes;
  }
  const CurrentDevice scope(block.device);
  const std::lock_guard guard(block.owner->mutex);
  if (!stream) stream = block.owner->stream;
  succeeds(stream ? cudaFreeAsync(memory, stream)
                  : cudaFree(memory));  // if the GPU is lost, every op says so
  {
    const std::lock_guard table(taken().mutex);
    ++taken().frees;
  }
  taken().freed.notify_all();
}

// Page-locked bytes that are kept when no block of them fits a request: blocks of sizes that are asked for once would add up.
constexpr std::size_t kMostKept = std::size_t{256} << 20;

// Page-locked memory: CUDA takes milliseconds to lock pages, and waits for all GPUs to unlock them.
struct Pinned {
  // Guards all below. CUDA is not called while it is held: the work that it waits for may free page-locked memory.
  detail::ForkMutex mutex;
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

void release_kept() {
  std::multimap<std::size_t, std::byte*> released;
  {
    const std::lock_guard guard(pinned().mutex);
    released.swap(pinned().kept);
    for (const auto& [size, memory] : released) pinned().sizes.erase(memory);
  }
  const detail::DeviceInUse scope;
  for (const auto& [size, memory] : released) succeeds(cudaFreeHost(memory));
}

// A kept block that has as many bytes, and not more than twice as many; null if there is none.
std::byte* take_kept(std::size_t size) {
  const std::lock_guard guard(pinned().mutex);
  const auto kept = pinned().kept.lower_bound(size);
  if (kept == pinned().kept.end() || kept->first > 2 * size) return nullptr;
  std::byte* const memory = kept->second;
  pinned().kept.erase(kept);
  return memory;
}

// Page-locked memory is for all GPUs; a context makes it. That of a GPU which the engine uses, unless it is lost: then of another one.
cudaError_t lock_pages(void** memory, std::size_t bytes) {
  const detail::DeviceInUse scope;
  const cudaError_t status = cudaHostAlloc(memory, bytes, cudaHostAllocPortable);
  if (succeeds(status) || status == cudaErrorMemoryAllocation) return status;
  int count = 0;
  if (!succeeds(cudaGetDeviceCount(&count))) return status;
  for (int device = 0; device < count; ++device) {
    if (!succeeds(cudaSetDevice(device))) continue;
    if (succeeds(cudaHostAlloc(memory, bytes, cudaHostAllocPortable))) return cudaSuccess;
  }
  return status;
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
  const CurrentDevice scope(device);
  check(scope.status(), "cudaSetDevice", device);
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

void gpu_copy_between(Stream& stream, std::byte* to, Device to_device, const std::byte* from,
                      Device from_device, std::size_t bytes) {
  // Memory of a pool can be reached by its own device alone: cudaMemcpyAsync does not find the way to another one.
  check(cudaMemcpyPeerAsync(to, to_device.index, from, from_device.index, bytes,
                            static_cast<cudaStream_t>(stream.native())),
        "cudaMemcpyPeerAsync", from_device.index);
}

GpuMemoryStats gpu_memory_stats(Device device) {
  detail::check_memory_of("gpu_memory_stats", device);
  if (device.kind == DeviceKind::cpu_pinned) return pinned_stats();
  const CurrentDevice scope(device.index);
  check(scope.status(), "cudaSetDevice", device.index);
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
  detail::check_memory_of("gpu_memory_trim", device);
  if (device.kind == DeviceKind::cpu_pinned) return release_kept();
  const CurrentDevice scope(device.index);
  check(scope.status(), "cudaSetDevice", device.index);
  check(cudaMemPoolTrimTo(pool_of(device.index), 0), "cudaMemPoolTrimTo", device.index);
}

bool gpu_make_room(cudaStream_t stream) noexcept {
  cudaGetLastError();  // of the call that had too little memory
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (!succeeds(cudaStreamIsCapturing(stream, &capture)) || capture != cudaStreamCaptureStatusNone)
    return false;
  try {
    int device = 0;
    if (!succeeds(cudaGetDevice(&device)) || !succeeds(cudaStreamSynchronize(stream))) return false;
    return succeeds(cudaMemPoolTrimTo(pool_of(device), 0));
  } catch (const std::exception&) {
    return false;
  }
}

std::byte* gpu_allocate_pinned(std::size_t bytes) {
  const std::size_t size = pinned_size(bytes);
  if (std::byte* const kept = take_kept(size)) return kept;
  // Locking pages takes its time anyway.
  if (pinned_stats().cached > kMostKept) release_kept();
  void* memory = nullptr;
  cudaError_t status = lock_pages(&memory, size);
  if (status == cudaErrorMemoryAllocation) {
    release_kept();
    status = lock_pages(&memory, size);
  }
  if (status == cudaErrorMemoryAllocation) return nullptr;
  if (status != cudaSuccess) throw Error(std::string("cudaHostAlloc: ") + cudaGetErrorString(status));
  auto* const begin = static_cast<std::byte*>(memory);
  const std::lock_guard guard(pinned().mutex);
  pinned().sizes[begin] = size;
  return begin;
}

bool is_page_locked(const void* memory, std::size_t bytes) noexcept {
  if (detail::forked_with_cuda() || !memory || bytes == 0) return false;
  const detail::DeviceInUse scope;
  const auto is_locked = [](const void* at) {
    cudaPointerAttributes attributes{};
    return succeeds(cudaPointerGetAttributes(&attributes, at)) && attributes.type == cudaMemoryTypeHost;
  };
  return is_locked(memory) && is_locked(static_cast<const std::byte*>(memory) + bytes - 1);
}

void gpu_free_pinned(std::byte* memory) noexcept {
  if (detail::forked_with_cuda()) return;
  const std::lock_guard guard(pinned().mutex);
  const auto found = pinned().sizes.find(memory);
  if (found != pinned().sizes.end()) pinned().kept.emplace(found->second, memory);
}

void detail::gpu_stream_begins(void* native, int device) {
  const auto stream = static_cast<cudaStream_t>(native);
  const std::lock_guard guard(taken().mutex);
  taken().owners[stream] = std::make_shared<Owner>(stream, device);
}

void detail::gpu_stream_ends(void* native) noexcept {
  std::shared_ptr<Owner> owner;
  {
    const std::lock_guard guard(taken().mutex);
    const auto found = taken().owners.find(static_cast<cudaStream_t>(native));
    if (found == taken().owners.end()) return;
    owner = std::move(found->second);
    taken().owners.erase(found);
  }
  const std::lock_guard guard(owner->mutex);
  owner->stream = nullptr;
}

}  // namespace heddle
