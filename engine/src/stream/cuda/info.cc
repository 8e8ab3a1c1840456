#include <cuda_runtime_api.h>

#include <heddle/gpu_info.h>

#include "stream/cuda/status.h"

namespace heddle {

using detail::succeeds;

GpuInfo gpu_info() {
  GpuInfo info;
  info.built = true;
  if (!succeeds(cudaDriverGetVersion(&info.driver))) info.driver = 0;
  if (!succeeds(cudaRuntimeGetVersion(&info.runtime))) info.runtime = 0;
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (!succeeds(counted)) {
    if (info.driver > 0 && counted != cudaErrorNoDevice) info.problem = cudaGetErrorString(counted);
    return info;
  }
  for (int gpu = 0; gpu < count; ++gpu) {
    cudaDeviceProp properties{};
    const bool known = succeeds(cudaGetDeviceProperties(&properties, gpu));
    const std::string name = known ? properties.name : "unknown";
    if (name.find("emulated") != std::string::npos) info.emulated = true;
    info.gpus.push_back(name + ", compute capability " + std::to_string(properties.major) + "." +
                        std::to_string(properties.minor) + ", " +
                        std::to_string(properties.totalGlobalMem >> 20) + " MiB");
    std::vector<bool>& row = info.peers.emplace_back();
    for (int other = 0; other < count; ++other) {
      int can = gpu == other;
      if (gpu != other && !succeeds(cudaDeviceCanAccessPeer(&can, gpu, other))) can = 0;
      row.push_back(can != 0);
    }
  }
  return info;
}

}  // namespace heddle
