// Memory that a kernel needs while it runs. The thread keeps it for its next kernel.
#pragma once

#include <cstddef>

namespace heddle::cpu_kernels {

// A 64-byte aligned block of undetermined bytes. A freed block stays with the thread that freed it, so
// that its next op uses memory that is in the core's cache; one that is larger than a cache goes back to the arrays' allocator.
// Throws OutOfMemory.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* data() const { return data_; }
  template <class T> T* as() const { return static_cast<T*>(data_); }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace heddle::cpu_kernels
