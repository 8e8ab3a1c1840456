#include "gpu/cuda/gpu_calls.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <cuda_runtime_api.h>
#include <stdexcept>
#include <string>
#include <utility>

#include "gpu/cuda/add_one.h"

namespace heddle::bench {
namespace {

constexpr int kCount = 1000;
constexpr std::size_t kBytes = kCount * sizeof(int);

// Throws with the name of the call.
void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error(std::string(call) + ": " + cudaGetErrorName(status) + ", " +
                           cudaGetErrorString(status));
}
#define HEDDLE_CALL(function, ...) check(function(__VA_ARGS__), #function)

void expect(bool right, const char* what) {
  if (!right) throw std::runtime_error(what);
}

// What the tries of one GPU share. Nothing is given back after an error: the process ends soon.
struct Gpu {
  int device;
  cudaStream_t stream = nullptr, other = nullptr;
  int* numbers = nullptr;  // kCount, on the GPU
  int* pinned = nullptr;   // kCount
};

void streams(Gpu& gpu) {
  HEDDLE_CALL(cudaStreamCreateWithFlags, &gpu.stream, cudaStreamNonBlocking);
  HEDDLE_CALL(cudaStreamCreateWithFlags, &gpu.other, cudaStreamNonBlocking);
  HEDDLE_CALL(cudaStreamSynchronize, gpu.stream);
}

void pools(Gpu& gpu) {
  int supported = 0;
  HEDDLE_CALL(cudaDeviceGetAttribute, &supported, cudaDevAttrMemoryPoolsSupported, gpu.device);
  expect(supported, "cudaDevAttrMemoryPoolsSupported is 0");
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = gpu.device;
  cudaMemPool_t pool = nullptr;
  HEDDLE_CALL(cudaMemPoolCreate, &pool, &properties);
  std::uint64_t everything = UINT64_MAX, reserved = 0;
  HEDDLE_CALL(cudaMemPoolSetAttribute, pool, cudaMemPoolAttrReleaseThreshold, &everything);
  void* memory = nullptr;
  HEDDLE_CALL(cudaMallocFromPoolAsync, &memory, std::size_t{1} << 20, pool, gpu.stream);
  HEDDLE_CALL(cudaFreeAsync, memory, gpu.stream);
  HEDDLE_CALL(cudaStreamSynchronize, gpu.stream);
  HEDDLE_CALL(cudaMemPoolGetAttribute, pool, cudaMemPoolAttrReservedMemCurrent, &reserved);
  expect(reserved > 0, "a pool does not keep memory: cudaMemPoolAttrReservedMemCurrent is 0");
  HEDDLE_CALL(cudaMallocFromPoolAsync, &memory, kBytes, pool, gpu.stream);
  gpu.numbers = static_cast<int*>(memory);
  HEDDLE_CALL(cudaStreamSynchronize, gpu.stream);
}

void page_locked_memory(Gpu& gpu) {
  void* memory = nullptr;
  HEDDLE_CALL(cudaHostAlloc, &memory, kBytes, cudaHostAllocPortable);
  gpu.pinned = static_cast<int*>(memory);
}

void need_memory(const Gpu& gpu) { expect(gpu.numbers && gpu.pinned, "there is no memory for it"); }

void copies(Gpu& gpu) {
  need_memory(gpu);
  for (int i = 0; i < kCount; ++i) gpu.pinned[i] = i;
  HEDDLE_CALL(cudaMemcpyAsync, gpu.numbers, gpu.pinned, kBytes, cudaMemcpyDefault, gpu.stream);
  HEDDLE_CALL(cudaStreamSynchronize, gpu.stream);
  std::memset(gpu.pinned, 0, kBytes);
  HEDDLE_CALL(cudaMemcpyAsync, gpu.pinned, gpu.numbers, kBytes, cudaMemcpyDefault, gpu.stream);
  HEDDLE_CALL(cudaStreamSynchronize, gpu.stream);
  for (int i = 0; i < kCount; ++i) expect(gpu.pinned[i] == i, "a copy has other values");
}

void kernels(Gpu& gpu) {
  need_memory(gpu);
  check(add_one(gpu.stream, gpu.numbers, kCount), "cudaLaunchKernel");
  HEDDLE_CALL(cudaMemcpyAsync, gpu.pinned, gpu.numbers, kBytes, cudaMemcpyDefault, gpu.stream);
  HEDDLE_CALL(cudaStreamSynchronize, gpu.stream);
  for (int i = 0; i < kCount; ++i) expect(gpu.pinned[i] == i + 1, "a kernel has written other values");
}

void events(Gpu& gpu) {
  cudaEvent_t event = nullptr;
  HEDDLE_CALL(cudaEventCreateWithFlags, &event, cudaEventDisableTiming);
  HEDDLE_CALL(cudaEventRecord, event, gpu.stream);
  HEDDLE_CALL(cudaStreamWaitEvent, gpu.other, event, 0);
  HEDDLE_CALL(cudaStreamSynchronize, gpu.other);
  HEDDLE_CALL(cudaEventQuery, event);
  HEDDLE_CALL(cudaEventDestroy, event);
}

void functions_of_the_host(Gpu& gpu) {
  static std::atomic<int> calls;  // if the wait fails, the function may still be called
  calls = 0;
  const cudaHostFn_t count = [](void* to) { ++*static_cast<std::atomic<int>*>(to); };
  HEDDLE_CALL(cudaLaunchHostFunc, gpu.stream, count, &calls);
  HEDDLE_CALL(cudaStreamSynchronize, gpu.stream);
  expect(calls == 1, "a function of the host was not called");
}

void captures(Gpu& gpu) {
  need_memory(gpu);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  HEDDLE_CALL(cudaStreamBeginCapture, gpu.stream, cudaStreamCaptureModeThreadLocal);
  HEDDLE_CALL(cudaMemsetAsync, gpu.numbers, 0, kBytes, gpu.stream);
  check(add_one(gpu.stream, gpu.numbers, kCount), "cudaLaunchKernel in a capture");
  HEDDLE_CALL(cudaStreamEndCapture, gpu.stream, &graph);
  HEDDLE_CALL(cudaGraphInstantiate, &executable, graph, 0);
  HEDDLE_CALL(cudaGraphLaunch, executable, gpu.stream);
  HEDDLE_CALL(cudaMemcpyAsync, gpu.pinned, gpu.numbers, kBytes, cudaMemcpyDefault, gpu.stream);
  HEDDLE_CALL(cudaStreamSynchronize, gpu.stream);
  for (int i = 0; i < kCount; ++i) expect(gpu.pinned[i] == 1, "a graph has written other values");
  HEDDLE_CALL(cudaGraphExecDestroy, executable);
  HEDDLE_CALL(cudaGraphDestroy, graph);
}

void functions_of_the_driver(Gpu&) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  HEDDLE_CALL(cudaGetDriverEntryPointByVersion, "cuDevicePrimaryCtxGetState", &found, 12000,
              cudaEnableDefault, &result);
#else
  HEDDLE_CALL(cudaGetDriverEntryPoint, "cuDevicePrimaryCtxGetState", &found, cudaEnableDefault, &result);
#endif
  expect(found != nullptr, "the driver has no cuDevicePrimaryCtxGetState");
}

}  // namespace

int try_calls(int device) {
  const std::pair<const char*, void (*)(Gpu&)> all[] = {{"streams", streams},
                                                        {"memory pools", pools},
                                                        {"page-locked memory", page_locked_memory},
                                                        {"copies", copies},
                                                        {"kernels", kernels},
                                                        {"events", events},
                                                        {"functions of the host", functions_of_the_host},
                                                        {"captures and graphs", captures},
                                                        {"functions of the driver", functions_of_the_driver}};
  Gpu gpu{.device = device};
  int failed = 0;
  if (const cudaError_t status = cudaSetDevice(device); status != cudaSuccess) {
    std::printf("gpu(%d) DOES NOT WORK: cudaSetDevice: %s\n", device, cudaGetErrorString(status));
    return 1;
  }
  for (const auto& [name, attempt] : all) {
    try {
      attempt(gpu);
      std::printf("gpu(%d): %s work\n", device, name);
    } catch (const std::exception& error) {
      std::printf("gpu(%d): %s DO NOT WORK: %s\n", device, name, error.what());
      ++failed;
    }
  }
  return failed;
}

}  // namespace heddle::bench
