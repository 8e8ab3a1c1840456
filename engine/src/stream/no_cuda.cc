// Stands in for cuda/stream.cc in a build without CUDA: no GPUs, and an error that says why.
#include <heddle/error.h>

#include "stream/gpu.h"

namespace heddle {

int gpu_count() { return 0; }

namespace detail {

std::unique_ptr<Stream> make_gpu_stream(Device device, Lane) {
  throw Error(device.to_string() + ": this build has no CUDA; configure with -DHEDDLE_CUDA=ON");
}

}  // namespace detail
}  // namespace heddle
