// A kernel that adds 1 to numbers, to see whether kernels of this build run on a GPU.
#pragma once

#include <cuda_runtime_api.h>

namespace heddle::bench {

cudaError_t add_one(cudaStream_t stream, int* numbers, int count);

}  // namespace heddle::bench
