// Scratch memory of one op on a GPU.
#pragma once

#include <cstddef>

#include <heddle/kernel_context.h>

namespace heddle::cuda_kernels {

// Memory for the work that the op enqueues while the object lives. It is freed behind that work.
class Scratch {
 public:
  Scratch(const KernelContext& context, std::size_t bytes);  // throws OutOfMemory
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  template <class T = std::byte> T* as() const { return reinterpret_cast<T*>(memory_); }

 private:
  std::byte* memory_ = nullptr;
};

}  // namespace heddle::cuda_kernels
