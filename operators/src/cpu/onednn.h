// oneDNN behind a small face: one engine, streams and reorders that may run on any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include <dnnl.hpp>

namespace heddle::cpu_kernels {

dnnl::engine& onednn_engine();

// This thread's stream. Work on it is done when execute returns.
dnnl::stream& onednn_stream();

// A description of row-major f32 memory.
dnnl::memory::desc row_major(const dnnl::memory::dims& dims);

// Attributes that leave scratch memory to the caller, which is what makes a primitive usable from several threads.
dnnl::primitive_attr caller_scratch();

// A primitive with the layouts of its arguments. Immutable: run() may be called on any thread.
class Executable {
 public:
  struct Argument {
    int kind;  // DNNL_ARG_SRC, ...
    dnnl::memory::desc desc;
  };
  Executable() = default;  // runs nothing
  Executable(dnnl::primitive primitive, std::vector<Argument> arguments, const dnnl::memory::desc& scratch);

  // One pointer an argument, in order. oneDNN does not tell what is read from what is written by type.
  void run(std::initializer_list<const float*> pointers) const;

 private:
  struct Bound;
  struct BoundByThread;
  Bound& bound() const;
  std::uint64_t id_ = 0;
  dnnl::primitive primitive_;
  std::vector<Argument> arguments_;  // the scratch memory is the last
  std::size_t scratch_bytes_ = 0;
};

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
  Executable executable_;
};

}  // namespace heddle::cpu_kernels
