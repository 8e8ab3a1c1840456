// Memory of a GPU that kernels of one op use between them.
#pragma once

#include <cstddef>
#include <utility>

#include <heddle/array_error.h>
#include <heddle/gpu_memory.h>
#include <heddle/kernel_context.h>

namespace heddle::cuda_kernels {

// Freed behind the work that has been enqueued when it ends. `what` is the memory's name in OutOfMemory.
class Scratch {
 public:
  Scratch(const KernelContext& context, const char* what, std::size_t bytes)
      : memory_(bytes ? gpu_allocate(context.stream(), context.stream(), bytes) : nullptr) {
    if (bytes && !memory_) throw OutOfMemory(what, bytes);
  }
  ~Scratch() {
    if (memory_) gpu_free(memory_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() const { return memory_; }
  template <class T> T* as() const { return reinterpret_cast<T*>(memory_); }

 private:
  std::byte* memory_;
};

}  // namespace heddle::cuda_kernels
