#include "cuda/scratch.h"

#include <heddle/array_error.h>
#include <heddle/gpu_memory.h>

namespace heddle::cuda_kernels {

// Kernels run on the compute stream, behind whose work memory is freed.
Scratch::Scratch(const KernelContext& context, std::size_t bytes) {
  if (bytes == 0) return;
  memory_ = gpu_allocate(context.stream(), context.stream(), bytes);
  if (!memory_) throw OutOfMemory("scratch memory of a kernel", bytes);
}
Scratch::~Scratch() {
  if (memory_) gpu_free(memory_);
}

}  // namespace heddle::cuda_kernels
