// Memory that kernels of one op need while they run. In plain types: nvcc compiles C++17.
#pragma once

#include <cstddef>

namespace heddle {
class KernelContext;
}

namespace heddle::cuda_kernels {

// Memory for the work that the op enqueues while the object lives; freed behind that work. Aligned for every type.
class Scratch {
 public:
  // Throws OutOfMemory, which names the memory by `what`. No bytes: null.
  Scratch(const KernelContext& context, const char* what, std::size_t bytes);
  Scratch(const KernelContext& context, std::size_t bytes)
      : Scratch(context, "scratch memory of a kernel", bytes) {}
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() const { return memory_; }
  template <class T = std::byte> T* as() const { return reinterpret_cast<T*>(memory_); }

 private:
  std::byte* memory_ = nullptr;
};

// Scratch memory in several blocks, for a function that finds out itself how much it needs. Freed as that of Scratch.
class ScratchBlocks {
 public:
  explicit ScratchBlocks(const KernelContext& context) : context_(context) {}
  ~ScratchBlocks();
  ScratchBlocks(const ScratchBlocks&) = delete;
  ScratchBlocks& operator=(const ScratchBlocks&) = delete;

  void* take(std::size_t bytes);  // throws OutOfMemory; at most kBlocks calls
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
