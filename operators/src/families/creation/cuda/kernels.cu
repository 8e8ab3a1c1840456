// linspace and logspace on GPUs. The power of logspace is that of CUDA's library; all others are the CPU's bits.
#include "families/creation/cuda/kernels.h"
#include "gpu/elements.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {
namespace {

struct WriteSeries {
  Series series;
  void* to;
  long long count;
  on_gpu::Type type;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    for (long long i = thread.global_index(); i < count; i += thread.global_size())
      on_gpu::store(to, i, type, series(i));
  }
};

}  // namespace

const char* launch_series(void* stream, const Series& series, void* to, long long count,
                          unsigned char dtype) {
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), count,
                             WriteSeries{series, to, count, on_gpu::Type{dtype}});
}

}  // namespace heddle::cuda_kernels
