// gpu_device: says what GPUs this machine has, as CUDA tells it, and which of the calls that Heddle needs work there. Exit status 77:
// none; 1: there is one that CUDA cannot use; 3: some calls do not work.
#include <cstdio>
#include <cuda_runtime_api.h>
#include <exception>

#include <heddle/device.h>

#include "gpu/cuda/gpu_calls.h"

namespace {

int print_refusal(cudaError_t status) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  std::printf("CUDA: %s\ndriver for CUDA %d.%d, programs for CUDA %d.%d\n", cudaGetErrorString(status),
              driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
  // Without a driver its version is 0, and CUDA calls that an insufficient one.
  if (status == cudaErrorNoDevice || driver == 0) {
    std::puts("no GPU: nothing was run.");
    return 77;
  }
  return 1;
}

int print_device(int index) {
  cudaDeviceProp device{};
  if (const cudaError_t status = cudaGetDeviceProperties(&device, index)) return print_refusal(status);
  std::size_t free = 0, total = 0;
  cudaSetDevice(index);
  const cudaError_t status = cudaMemGetInfo(&free, &total);
  if (status != cudaSuccess) return print_refusal(status);
  const double gib = 1024.0 * 1024 * 1024;
  std::printf(
      "gpu(%d): %s, compute capability %d.%d, %d SMs, memory %.2f GiB, %.2f GiB free, L2 %.1f MiB, "
      "%d copy engines, ECC %s\n",
      index, device.name, device.major, device.minor, device.multiProcessorCount,
      static_cast<double>(total) / gib, static_cast<double>(free) / gib, device.l2CacheSize / 1048576.0,
      device.asyncEngineCount, device.ECCEnabled ? "on" : "off");
  return 0;
}

void print_peers(int count) {
  if (count < 2) return void(std::puts("peers: none, there is one GPU"));
  for (int from = 0; from < count; ++from) {
    std::printf("gpu(%d) reaches:", from);
    for (int to = 0; to < count; ++to) {
      int reaches = 0;
      if (from != to && cudaDeviceCanAccessPeer(&reaches, from, to) == cudaSuccess && reaches)
        std::printf(" gpu(%d)", to);
    }
    std::puts("");
  }
}

// What CUDA counts, Heddle has to find.
bool heddle_finds(int count) {
  try {
    const int found = heddle::gpu_count();
    std::printf("heddle finds %d\n", found);
    return found == count;
  } catch (const std::exception& error) {
    std::printf("heddle finds none: %s\n", error.what());
    return false;
  }
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // a call that hangs is the one behind the last line
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess || count == 0)
    return print_refusal(status == cudaSuccess ? cudaErrorNoDevice : status);
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  std::printf("driver for CUDA %d.%d, programs for CUDA %d.%d\n", driver / 1000, driver % 1000 / 10,
              runtime / 1000, runtime % 1000 / 10);
  for (int index = 0; index < count; ++index) {
    if (const int status = print_device(index)) return status;
  }
  print_peers(count);
  if (!heddle_finds(count)) return 1;
  int failed = 0;
  for (int index = 0; index < count; ++index) failed += heddle::bench::try_calls(index);
  return failed ? 3 : 0;
}
