// oneDNN behind a small face: one engine, streams and reorders that may run on any thread.
#pragma once

#include <cstddef>

#include <dnnl.hpp>

namespace heddle::cpu_kernels {

dnnl::engine& onednn_engine();

// This thread's stream. Work on it is done when execute returns.
dnnl::stream& onednn_stream();

// A description of row-major f32 memory.
dnnl::memory::desc row_major(const dnnl::memory::dims& dims);

// Attributes that leave scratch memory to the caller, which is what makes a primitive usable from several threads.
dnnl::primitive_attr caller_scratch();

// A change of layout, or nothing if the two are equal. Immutable: run() may be called on any thread.
class Reorder {
 public:
  Reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to);
  bool needed() const { return needed_; }
  std::size_t to_bytes() const { return to_.get_size(); }
  void run(const float* from, float* to) const;

  // `plain` itself if the layouts are equal; else converts it into `room` (to_bytes() of it) and returns that.
  const float* convert(const float* plain, float* room) const;

 private:
  dnnl::memory::desc from_, to_;
  bool needed_;
  dnnl::reorder primitive_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace heddle::cpu_kernels
