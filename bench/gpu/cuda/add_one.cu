#include "add_one.h"
#include "gpu/kernel.h"

namespace heddle::bench {
namespace {

struct AddOne {
  int* numbers;
  int count;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long i = thread.global_index();
    if (i < count) ++numbers[i];
  }
};

}  // namespace

cudaError_t add_one(cudaStream_t stream, int* numbers, int count) {
  return on_gpu::launch(stream, on_gpu::blocks_for(count, 256), 256, 0, AddOne{numbers, count});
}

}  // namespace heddle::bench
