// The context that the function of an op on arrays runs in: a worker of the CPU, or a stream of the arrays'
// GPU.
#pragma once

#include <heddle/op.h>
#include <heddle/stream.h>

namespace heddle {

// Converts from the argument that the engine passes to an op's function. Lives until the function has
// returned.
class KernelContext {
 public:
  KernelContext(RunContext&) {}
  KernelContext(Stream& stream) : stream_(&stream) {}

  bool on_stream() const { return stream_; }
  // The stream of the GPU. The function enqueues its work there and returns without waiting for it. Throws Error on the CPU.
  Stream& stream() const;

 private:
  Stream* stream_ = nullptr;
};

}  // namespace heddle
