// Memory that the kernels of one op need while they run. The header has plain types: nvcc compiles C++17.
#pragma once

#include <cstddef>

namespace heddle {
class KernelContext;
}

namespace heddle::cuda_kernels {

class Scratch {
 public:
  explicit Scratch(const KernelContext& context) : context_(context) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();  // frees the memory behind the work that the op's stream has so far

  // Aligned for every type. Throws OutOfMemory. At most kBlocks calls.
  void* take(std::size_t bytes);
  template <class T> T* take_array(long long count) {
    return static_cast<T*>(take(sizeof(T) * static_cast<std::size_t>(count)));
  }

 private:
  static constexpr int kBlocks = 4;
  const KernelContext& context_;
  std::byte* blocks_[kBlocks] = {};
  int count_ = 0;
};

}  // namespace heddle::cuda_kernels
