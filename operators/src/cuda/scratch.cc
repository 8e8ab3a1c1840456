#include "cuda/scratch.h"

#include <heddle/array_error.h>
#include <heddle/error.h>
#include <heddle/gpu_memory.h>
#include <heddle/kernel_context.h>

namespace heddle::cuda_kernels {

Scratch::~Scratch() {
  for (int i = 0; i < count_; ++i) gpu_free(blocks_[i]);
}

void* Scratch::take(std::size_t bytes) {
  if (count_ == kBlocks) throw Error("an op takes too many blocks of scratch memory");
  Stream& stream = context_.stream();
  std::byte* const block = gpu_allocate(stream, stream, bytes);
  if (!block) throw OutOfMemory("scratch memory of a kernel", bytes);
  blocks_[count_++] = block;
  return block;
}

}  // namespace heddle::cuda_kernels
