// The engine's interface to GPUs. CMake takes either cuda/stream.cc or no_cuda.cc, which define this function and
// gpu_count of <heddle/device.h>.
#pragma once

#include <memory>

#include <heddle/stream.h>

namespace heddle::detail {

// Throws Error if there is no such GPU, or the build is without CUDA.
std::unique_ptr<Stream> make_gpu_stream(Device device, Lane lane);

}  // namespace heddle::detail
