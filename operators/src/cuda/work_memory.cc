#include "cuda/work_memory.h"

#include <heddle/array_error.h>
#include <heddle/gpu_memory.h>

namespace heddle::cuda_kernels {

WorkMemory::WorkMemory(const KernelContext& context, std::size_t bytes)
    : memory_(gpu_allocate(context.stream(), context.stream(), bytes)) {
  if (!memory_)
    throw OutOfMemory("memory for the work of an op on " + context.stream().device().to_string(), bytes);
}

WorkMemory::~WorkMemory() { gpu_free(memory_); }

}  // namespace heddle::cuda_kernels
