// The seam between the engine and GPUs: CMake takes cuda/stream.cc or no_cuda.cc to define what is declared here, and
// gpu_count of <heddle/device.h>.
#pragma once

#include <memory>

#include <heddle/stream.h>

namespace heddle::detail {

// Throws Error if there is no such GPU, or none in this build.
std::unique_ptr<Stream> make_gpu_stream(Device device, Lane lane);

}  // namespace heddle::detail
