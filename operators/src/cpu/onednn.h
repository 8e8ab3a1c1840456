// The kernels' use of oneDNN: one engine, a stream for each thread, and primitives that any thread may run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include <dnnl.hpp>

namespace heddle::cpu_kernels {

dnnl::engine& onednn_engine();

// The stream of this thread. Work on it is done when execute() returns.
dnnl::stream& onednn_stream();

// Whether this machine, and DNNL_MAX_CPU_ISA, allow instructions for products of bf16.
bool onednn_has_bf16();

// A description of row-major memory.
dnnl::memory::desc row_major(const dnnl::memory::dims& dims,
                             dnnl::memory::data_type type = dnnl::memory::data_type::f32);

// Attributes with which the caller passes the scratch memory. Only then may several threads run one primitive
// at once.
dnnl::primitive_attr caller_scratch();

// The implementation that oneDNN chooses for a primitive, which uses the caller's scratch memory. oneDNN 3 has taken the descriptions of
// operations, which oneDNN 2 wants, into those of primitives.
template <class Primitive, class... Arguments>
typename Primitive::primitive_desc describe(const dnnl::primitive_attr& attributes,
                                            const Arguments&... arguments) {
  if constexpr (requires { typename Primitive::desc; }) {
    return {typename Primitive::desc(arguments...), attributes, onednn_engine()};
  } else {
    return {onednn_engine(), arguments..., attributes};
  }
}

// The implementation that oneDNN chooses for the gradient of a primitive, which `forward` describes; it uses the caller's scratch memory.
template <class Primitive, class Forward, class... Arguments>
typename Primitive::primitive_desc describe_gradient(const Forward& forward, const Arguments&... arguments) {
  if constexpr (requires { typename Primitive::desc; }) {
    return {typename Primitive::desc(arguments...), caller_scratch(), onednn_engine(), forward};
  } else {
    return {onednn_engine(), arguments..., forward, caller_scratch()};
  }
}

// A primitive with the layouts of its arguments. Immutable: run() may be called on any thread.
class Executable {
 public:
  struct Argument {
    int kind;  // the argument's number in oneDNN: DNNL_ARG_SRC, ...
    dnnl::memory::desc desc;
  };
  Executable() = default;  // an empty one: run() does nothing
  Executable(dnnl::primitive primitive, std::vector<Argument> arguments, const dnnl::memory::desc& scratch);

  // Runs the primitive with one pointer for each argument, in order. Pointers to outputs are const too, since
  // oneDNN has one type for inputs and outputs.
  void run(std::initializer_list<const void*> pointers) const;

 private:
  struct Bound;
  struct BoundByThread;
  Bound& bound() const;
  std::uint64_t id_ = 0;
  dnnl::primitive primitive_;
  std::vector<Argument> arguments_;  // the last one is the scratch memory
  std::size_t scratch_bytes_ = 0;
};

// Converts a layout to another one, or does nothing if the layouts are equal. Immutable: run() may be called
// on any thread.
class Reorder {
 public:
  Reorder(const dnnl::memory::desc& from, const dnnl::memory::desc& to);
  bool needed() const { return needed_; }
  std::size_t to_bytes() const { return to_.get_size(); }
  void run(const void* from, void* to) const;

  // Returns `plain` itself if the layouts are equal; else converts it into `buffer`, of to_bytes() bytes, and
  // returns that.
  template <class T> const T* convert(const T* plain, T* buffer) const {
    if (!needed_) return plain;
    run(plain, buffer);
    return buffer;
  }

 private:
  dnnl::memory::desc from_, to_;
  bool needed_;
  Executable executable_;
};

}  // namespace heddle::cpu_kernels
