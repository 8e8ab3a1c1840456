// Results of CUDA's calls.
#pragma once

#include <cuda_runtime_api.h>

namespace heddle::detail {

// Whether a call has succeeded. If not, clears the thread's last error, which an op would report as that of its launch.
inline bool succeeds(cudaError_t status) {
  if (status != cudaSuccess) cudaGetLastError();
  return status == cudaSuccess;
}

}  // namespace heddle::detail
