// Memory of devices and of the host, and pools.
#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime/access.h"
#include "runtime/locked_call.h"

namespace heddle::emulated_gpu {
namespace {

const void* identity(const CUstream_st& stream) { return reinterpret_cast<const void*>(stream.id); }

// What work found that was enqueued when there had been so many failures. A device that has failed since says nothing.
void report(int device, std::uint64_t failures, const std::string& wrong) {
  if (!wrong.empty() && !has_failed_since(device, failures))
    fail_device(device, cudaErrorIllegalAddress, wrong.c_str());
}

Pool& pool_of(cudaMemPool_t handle) {
  const auto found = runtime().pools.find(handle);
  require(found != runtime().pools.end(), cudaErrorInvalidValue);
  return *found->second;
}

cudaMemPool_t add_pool(int device) {
  auto pool = std::make_unique<Pool>(Pool{.device = device});
  const auto handle = reinterpret_cast<cudaMemPool_t>(pool.get());
  runtime().pools[handle] = std::move(pool);
  return handle;
}

void update_peaks(cudaMemPool_t handle) {
  Pool& pool = pool_of(handle);
  pool.used_high = std::max<std::uint64_t>(pool.used_high, pool_bytes(handle, false));
  pool.reserved_high = std::max<std::uint64_t>(pool.reserved_high, pool_bytes(handle, true));
}

void* allocate_in_stream(std::size_t bytes, cudaMemPool_t pool, CUstream_st& stream) {
  require(bytes > 0, cudaErrorInvalidValue);
  refuse_in_capture(stream);
  const Allocation made = allocate(pool_of(pool).device, bytes, pool, identity(stream));
  require(made.begin, cudaErrorMemoryAllocation);
  update_peaks(pool);
  enqueue(stream, [made, since = failures()] {
    const DeviceAccess access;
    report(made.device, since, paint(made));
  });
  return made.begin;
}

void allocate_pinned(void** made, std::size_t bytes, unsigned flags) {
  require(made, cudaErrorInvalidValue);
  current_device();
  *made = nullptr;
  if (bytes == 0) return;
  {
    const std::lock_guard guard(runtime().mutex);
    refuse_unsafe_call();
  }
  require(bytes <= std::size_t{1} << 40,
          cudaErrorMemoryAllocation);  // sanitizers end the process that asks malloc for more
  void* memory = nullptr;
  require(posix_memalign(&memory, 256, bytes) == 0, cudaErrorMemoryAllocation);
  std::memset(memory, kPoison, bytes);
  const std::lock_guard guard(runtime().mutex);
  runtime().pinned[static_cast<char*>(memory)] = {bytes, flags, false};
  *made = memory;
}

// The host takes all work of a device that has failed for done, and frees what work of any stream may still use.
void order_behind_all(CUstream_st& stream) {
  for (auto& [handle, other] : runtime().streams) {
    if (other->device == stream.device && other.get() != &stream) wait_in_stream(stream, record(*other));
  }
  for (auto& [other, recording] : runtime().destroyed) {
    if (other->device == stream.device) wait_in_stream(stream, recording);
  }
}

// Waits for all devices first, as CUDA does.
void free_pinned(void* memory) {
  if (!memory) return;
  {
    const std::lock_guard guard(runtime().mutex);
    const auto found = runtime().pinned.find(static_cast<char*>(memory));
    require(found != runtime().pinned.end() && !found->second.registered, cudaErrorInvalidValue);
    refuse_unsafe_call();
  }
  count_host_wait();
  for (int device = 0; device < settings().devices; ++device) await_device(device);
  const std::lock_guard guard(runtime().mutex);
  require(runtime().pinned.erase(static_cast<char*>(memory)) == 1, cudaErrorInvalidValue);
  std::free(memory);
}

void free_now(void* memory) {
  if (!memory) return;
  Allocation found;
  require(find_live(memory, found), cudaErrorInvalidValue);
  refuse_unsafe_call_unlocked();
  // CUDA does not wait for work that uses memory of a pool.
  if (!found.pool) {
    count_host_wait();
    await_device(found.device);
  }
  begin_free(found, nullptr);
  std::string wrong;
  {
    const DeviceAccess access;
    wrong = finish_free(found);
  }
  report(found.device, failures(), wrong);
  check_device(found.device);
}

const std::pair<const char* const, Pinned>* pinned_at(const void* address) {
  const auto& pinned = runtime().pinned;
  const auto* at = static_cast<const char*>(address);
  auto after = pinned.upper_bound(at);
  if (after == pinned.begin()) return nullptr;
  const auto& found = *std::prev(after);
  return at < found.first + found.second.bytes ? &found : nullptr;
}

}  // namespace

bool is_pinned(const void* begin, std::size_t bytes) {
  const auto* found = pinned_at(begin);
  return found && static_cast<const char*>(begin) + bytes <= found->first + found->second.bytes;
}

std::size_t live_bytes(int device) { return live_bytes_of(device); }

}  // namespace heddle::emulated_gpu

using namespace heddle::emulated_gpu;

namespace {

cudaMemPool_t default_pool(int device) {
  cudaMemPool_t& pool = runtime().default_pools[device];
  if (!pool) pool = add_pool(device);
  return pool;
}

cudaMemPool_t pool_in_use(int device) {
  const auto found = runtime().current_pools.find(device);
  return found == runtime().current_pools.end() ? default_pool(device) : found->second;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** made, std::size_t bytes) {
  return call("cudaMalloc", [&] {
    require(made, cudaErrorInvalidValue);
    const int device = current_device();
    *made = nullptr;
    if (bytes == 0) return;
    refuse_unsafe_call_unlocked();
    const Allocation allocation = allocate(device, bytes, nullptr, nullptr);
    require(allocation.begin, cudaErrorMemoryAllocation);
    const DeviceAccess access;
    report(device, failures(), paint(allocation));
    *made = allocation.begin;
  });
}
cudaError_t cudaFree(void* memory) {
  return release_call("cudaFree", [&] { free_now(memory); });
}

cudaError_t cudaHostAlloc(void** made, std::size_t bytes, unsigned flags) {
  return call("cudaHostAlloc", [&] { allocate_pinned(made, bytes, flags); });
}
cudaError_t cudaMallocHost(void** made, std::size_t bytes) {
  return call("cudaMallocHost", [&] { allocate_pinned(made, bytes, cudaHostAllocDefault); });
}
cudaError_t cudaFreeHost(void* memory) {
  return release_call("cudaFreeHost", [&] { free_pinned(memory); });
}

cudaError_t cudaHostRegister(void* memory, std::size_t bytes, unsigned flags) {
  return call("cudaHostRegister", [&] {
    require(memory && bytes > 0 && !is_device_memory(memory), cudaErrorInvalidValue);
    const std::lock_guard guard(runtime().mutex);
    require(!pinned_at(memory), cudaErrorHostMemoryAlreadyRegistered);
    runtime().pinned[static_cast<char*>(memory)] = {bytes, flags, true};
  });
}
cudaError_t cudaHostUnregister(void* memory) {
  return locked_release_call("cudaHostUnregister", [&] {
    const auto found = runtime().pinned.find(static_cast<char*>(memory));
    require(found != runtime().pinned.end() && found->second.registered, cudaErrorHostMemoryNotRegistered);
    runtime().pinned.erase(found);
  });
}
cudaError_t cudaHostGetFlags(unsigned* flags, void* memory) {
  return locked_call("cudaHostGetFlags", [&] {
    const auto* found = pinned_at(memory);
    require(found, cudaErrorInvalidValue);
    *flags = found->second.flags;
  });
}
cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* memory, unsigned flags) {
  return locked_call("cudaHostGetDevicePointer", [&] {
    require(flags == 0 && pinned_at(memory), cudaErrorInvalidValue);
    *device_pointer = memory;
  });
}

cudaError_t cudaMallocAsync(void** made, std::size_t bytes, cudaStream_t handle) {
  return call("cudaMallocAsync", [&] {
    require(made, cudaErrorInvalidValue);
    await_room(handle);
    const std::lock_guard guard(runtime().mutex);
    CUstream_st& stream = stream_of(handle);
    *made = allocate_in_stream(bytes, pool_in_use(stream.device), stream);
  });
}
cudaError_t cudaMallocFromPoolAsync(void** made, std::size_t bytes, cudaMemPool_t pool, cudaStream_t handle) {
  return call("cudaMallocFromPoolAsync", [&] {
    require(made, cudaErrorInvalidValue);
    await_room(handle);
    const std::lock_guard guard(runtime().mutex);
    *made = allocate_in_stream(bytes, pool, stream_of(handle));
  });
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t handle) {
  return release_call("cudaFreeAsync", [&] {
    if (!memory) return;
    await_room(handle);
    const std::lock_guard guard(runtime().mutex);
    // A device that has failed gives its memory back too, for tests that revive it.
    CUstream_st& stream =
        runtime().streams.contains(handle) ? stream_even_if_failed(handle) : stream_of(handle);
    refuse_in_capture(stream);
    Allocation found;
    require(find_live(memory, found), cudaErrorInvalidValue);
    if (has_failed(stream.device)) order_behind_all(stream);
    begin_free(found, identity(stream));
    enqueue(stream, [found, since = failures()] {
      const DeviceAccess access;
      report(found.device, since, finish_free(found));
    });
    check_device(stream.device);
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return call("cudaDeviceGetDefaultMemPool", [&] {
    check_device_index(device);
    const std::lock_guard guard(runtime().mutex);
    *pool = default_pool(device);
  });
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return call("cudaDeviceGetMemPool", [&] {
    check_device_index(device);
    const std::lock_guard guard(runtime().mutex);
    *pool = pool_in_use(device);
  });
}
cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  return call("cudaDeviceSetMemPool", [&] {
    check_device_index(device);
    const std::lock_guard guard(runtime().mutex);
    require(pool_of(pool).device == device, cudaErrorInvalidValue);
    runtime().current_pools[device] = pool;
  });
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  return call("cudaMemPoolCreate", [&] {
    require(pool && properties && properties->location.type == cudaMemLocationTypeDevice,
            cudaErrorInvalidValue);
    check_device_index(properties->location.id);
    const std::lock_guard guard(runtime().mutex);
    *pool = add_pool(properties->location.id);
  });
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return locked_release_call("cudaMemPoolDestroy", [&] {
    const int device = pool_of(pool).device;
    require(default_pool(device) != pool, cudaErrorInvalidValue);
    if (pool_in_use(device) == pool) runtime().current_pools.erase(device);
    trim_pool(pool, 0);
    runtime().pools.erase(pool);
  });
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t keep) {
  return locked_call("cudaMemPoolTrimTo", [&] {
    pool_of(pool);
    trim_pool(pool, keep);
  });
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  return locked_call("cudaMemPoolSetAttribute", [&] {
    Pool& pool = pool_of(handle);
    const auto number = [value] { return *static_cast<std::uint64_t*>(value); };
    switch (attribute) {
      case cudaMemPoolReuseFollowEventDependencies:
      case cudaMemPoolReuseAllowOpportunistic:
      case cudaMemPoolReuseAllowInternalDependencies:
        return;
      case cudaMemPoolAttrReleaseThreshold:
        pool.threshold = number();
        return;
      case cudaMemPoolAttrUsedMemHigh:
        require(number() == 0, cudaErrorInvalidValue);
        pool.used_high = pool_bytes(handle, false);
        return;
      case cudaMemPoolAttrReservedMemHigh:
        require(number() == 0, cudaErrorInvalidValue);
        pool.reserved_high = pool_bytes(handle, true);
        return;
      default:
        throw Failure{cudaErrorInvalidValue};
    }
  });
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  return locked_call("cudaMemPoolGetAttribute", [&] {
    const Pool& pool = pool_of(handle);
    auto& number = *static_cast<std::uint64_t*>(value);
    switch (attribute) {
      case cudaMemPoolReuseFollowEventDependencies:
      case cudaMemPoolReuseAllowOpportunistic:
      case cudaMemPoolReuseAllowInternalDependencies:
        *static_cast<int*>(value) = 1;
        return;
      case cudaMemPoolAttrReleaseThreshold:
        return void(number = pool.threshold);
      case cudaMemPoolAttrReservedMemCurrent:
        return void(number = pool_bytes(handle, true));
      case cudaMemPoolAttrReservedMemHigh:
        return void(number = pool.reserved_high);
      case cudaMemPoolAttrUsedMemCurrent:
        return void(number = pool_bytes(handle, false));
      case cudaMemPoolAttrUsedMemHigh:
        return void(number = pool.used_high);
      default:
        throw Failure{cudaErrorInvalidValue};
    }
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call("cudaMemGetInfo", [&] {
    require(free && total, cudaErrorInvalidValue);
    const int device = current_device();
    const std::size_t used = used_bytes_of(device);
    *total = settings().memory;
    *free = *total - std::min(*total, used);
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  return call("cudaPointerGetAttributes", [&] {
    require(attributes, cudaErrorInvalidValue);
    *attributes = {};
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = -2;
    const std::lock_guard guard(runtime().mutex);
    if (const int device = device_of_live(address, 1); device >= 0) {
      attributes->type = cudaMemoryTypeDevice;
      attributes->device = device;
      attributes->devicePointer = const_cast<void*>(address);
    } else if (pinned_at(address)) {
      attributes->type = cudaMemoryTypeHost;
      attributes->device = current_device_even_if_failed();
      attributes->devicePointer = attributes->hostPointer = const_cast<void*>(address);
    }
  });
}

}  // extern "C"
