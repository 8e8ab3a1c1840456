// Memory of a GPU for what CUDA itself takes.
#pragma once

#include <cuda_runtime_api.h>

namespace heddle {

// After a call that had too little memory: waits for the work of a stream of the current device, and gives back to the GPU what the
// engine's pool keeps. False in a capture, in which it does nothing, and if CUDA fails. Defined in stream/cuda/memory.cc.
bool gpu_make_room(cudaStream_t stream) noexcept;

}  // namespace heddle
