// What a build without CUDA says when it is asked for a GPU.
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
