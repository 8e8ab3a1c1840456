// Memory of a GPU for the work of one op, which is freed behind that work.
#pragma once

#include <cstddef>

#include <heddle/kernel_context.h>

namespace heddle::cuda_kernels {

class WorkMemory {
 public:
  WorkMemory(const KernelContext& context, std::size_t bytes);  // throws OutOfMemory
  ~WorkMemory();
  WorkMemory(const WorkMemory&) = delete;
  WorkMemory& operator=(const WorkMemory&) = delete;
  template <class T> T* as() const { return reinterpret_cast<T*>(memory_); }

 private:
  std::byte* memory_;
};

}  // namespace heddle::cuda_kernels
