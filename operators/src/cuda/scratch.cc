#include "cuda/scratch.h"

#include <heddle/array_error.h>
#include <heddle/error.h>
#include <heddle/gpu_memory.h>
#include <heddle/kernel_context.h>

namespace heddle::cuda_kernels {
namespace {

// Kernels run on the compute stream, behind whose work memory is freed.
std::byte* taken(const KernelContext& context, const char* what, std::size_t bytes) {
  Stream& stream = context.stream();
  std::byte* const memory = gpu_allocate(stream, stream, bytes);
  if (!memory) throw OutOfMemory(what, bytes);
  return memory;
}

}  // namespace

Scratch::Scratch(const KernelContext& context, const char* what, std::size_t bytes)
    : memory_(bytes ? taken(context, what, bytes) : nullptr) {}
Scratch::~Scratch() {
  if (memory_) gpu_free(memory_);
}

ScratchBlocks::~ScratchBlocks() {
  for (int i = 0; i < count_; ++i) gpu_free(blocks_[i]);
}

void* ScratchBlocks::take(std::size_t bytes) {
  if (count_ == kBlocks) throw Error("an op takes too many blocks of scratch memory");
  std::byte* const block = taken(context_, "scratch memory of a kernel", bytes);
  blocks_[count_++] = block;
  return block;
}

}  // namespace heddle::cuda_kernels
